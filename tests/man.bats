load helper

# Whether each command, option, verb and key is on a page; and the tutorial.
# The examples of the pages, as they stand there: `$ ` begins a command, `> ` goes on with it, what
# follows is what it prints (`...`: more that is not said). Displays without `$ ` are not run.

# cut_examples PAGE [all]: those of EXAMPLES, or of all sections, into 01.run, 01.says (where the page shows something), 02.run...
cut_examples() {
	awk -v all="${2-}" '
	function plain(s) {
		gsub(/\\\(aq/, "\047", s); gsub(/\\\(dq/, "\"", s); gsub(/\\&/, "", s); gsub(/\\-/, "-", s)
		gsub(/\\e/, "\\", s)
		return s
	}
	function begin(s) { name = sprintf("%02d", ++n); print substr(s, 3) >(name ".run"); here(s) }
	function here(s) { end = ""; if (match(s, /<<\047[A-Z]+\047/)) end = substr(s, RSTART + 3, RLENGTH - 4) }
	/^\.Sh / { on = all || $2 == "EXAMPLES" }
	!on { next }
	/^\.Dl \$ / { begin(plain(substr($0, 5))); name = ""; next }
	/^\.Bd -literal/ { shown = 1; name = ""; next }
	/^\.Ed/ { shown = 0 }
	!shown { next }
	{ line = plain($0) }
	name != "" && end != "" { print line >(name ".run"); if (line == end) end = ""; next }
	line ~ /^\$ / { begin(line); next }
	name == "" { next }
	line ~ /^> / { print substr(line, 3) >(name ".run"); here(line); next }
	{ print line >(name ".says") }' "$1"
}

# What a page takes for given: files of a job that runs elsewhere.
is_elsewhere() {
	local file
	grep -q -e '-j adult' "$1" && return
	for file in job.env '--layout layout' run/bpt-monitor.sock run/metrics.sock 'node-host --test h0' \
		/tmp/job/shardd.sock /tmp/job/fabric.sock; do
		if grep -q -w -F -e "$file" "$1" && [ ! -e "${file#* }" ]; then return; fi
	done
	false
}

# says FILE: $output is what FILE shows; `...` stands for anything.
says() {
	local pattern
	pattern=$(sed 's/[][*?\\()|]/\\&/g; s/\.\.\./*/g' "$1")
	# shellcheck disable=SC2053
	[[ $output == $pattern ]]
}

try() {
	local command socket
	command=$(cat "$1.run")
	if [[ $command == *"&" ]]; then
		start "$1" bash -c "exec ${command%&}"
		socket=$(sed -n 's/.* -s \([^ ]*\).*/\1/p' "$1.run")
		[ -z "$socket" ] || ready "$socket"
		return
	fi
	if [[ $command == "socat - "* ]]; then
		# A conversation: what no daemon says has been typed.
		grep -Ev '^(paceline|ok|err|shard)' "$1.says" >"$1.in"
		grep -E '^(paceline|ok|err|shard)' "$1.says" >"$1.heard"
		mv "$1.heard" "$1.says"
		command="$command <$1.in"
	fi
	run --separate-stderr timeout 1200 bash -o pipefail -c "$command"
	if [ "$status" != 0 ] || { [ -e "$1.says" ] && ! says "$1.says"; }; then
		echo "exit $status: $output"
		echo "$stderr"
		false
	fi
}

# A machine that stands still for half a second, which is how long socat waits for an answer after
# the last line, is no wrong page.
socat() {
	[ "$1" != -t ] || shift 2
	command socat -t 300 "$@"
}
export -f socat

@test "the examples of every page print what it shows" {
	local page name run=0 compared=0
	# Of what they read in run/state this is one: a job as any other.
	job EPOCHS=200 SOLUTION=pace,every:0.1 MONITOR=report:1
	run_job >job.out
	for page in "$PACELINE_ROOT"/man/*.[1-8]; do
		mkdir "$T/${page##*/}"
		cd "$T/${page##*/}"
		cut_examples "$page"
		if cat ./*.run 2>/dev/null | grep -q run/state && ! grep -q -e '--run-dir run' ./*.run; then
			mkdir run
			cp -r "$T/run/state" run
		fi
		for name in $(ls | sed -n 's/\.run$//p'); do
			if is_elsewhere "$name.run"; then continue; fi
			echo "${page##*/}:"
			cat "$name.run"
			try "$name"
			run=$((run + 1))
			if [ -e "$name.says" ]; then compared=$((compared + 1)); fi
		done
	done
	echo "$run run, $compared compared"
	[ "$compared" -ge 25 ]
}

@test "the ten steps of paceline-tutorial(7) are a way from a csv to a nightly job" {
	local name page=$PACELINE_ROOT/man/paceline-tutorial.7
	[ "$(grep -c '^\.Sh [0-9]*\. ' "$page")" = 10 ]
	cut_examples "$page" all
	export EXAMPLES=$PACELINE_ROOT/scripts/examples HOME=$T RUNTIME_DIRECTORY=$T/run
	unset XDG_STATE_HOME
	for name in $(ls | sed -n 's/\.run$//p'); do
		cat "$name.run"
		try "$name"
	done
	[ -s shop.safetensors ]
	# Half of the time is much less than what the page shows; loads of others slow both jobs.
	[ "$(for log in slow fast; do tail -n 1 $log.log; done | plrec tsv state | sort -u)" = "done" ]
}

@test "paceline-job(5) has every key, with its parts and defaults as trainctl init --keys says them" {
	trainctl init --keys | sed -n 's/^#\([A-Z]\)/\1/p' | sort >said
	sed -n '/^\.It Cm [A-Z]/ { s/ Ns =/=/; p; }' "$PACELINE_ROOT/man/paceline-job.5" | tr ' ' '\n' |
		sed -n '/^[A-Z_]\{3,\}=/p; s/^[A-Z_]\{3,\}$/&=/p' | sort >shown
	diff said shown
}

# options PAGE: of the --help on stdin, those that the page lacks.
options() {
	sed -nE 's/^  (-., )?--([a-z0-9-]+).*/\2/p' | while read -r option; do
		grep -qE "Fl ([^ ]+ , )?-$option( |\$)" "$1" || echo "${1##*/}: --$option"
	done
}

@test "every command, every option and every verb is on a page" {
	local man=$PACELINE_ROOT/man source name page
	for source in "$PACELINE_ROOT"/cmd/*.c; do
		name=$(basename "$source" .c)
		page=("$man/$name".[1-8] "$man/paceline-$name".[1-8])
		[ -e "${page[0]}" ] || page=("${page[1]}")
		if command -v "$name" >/dev/null; then "$name" --help | options "${page[0]}"; fi # fabricd needs an MPI
	done >lacks
	trainctl --help | sed -n 's/^  \([a-z][a-z-]*\) .*/\1/p' >commands
	while read -r name; do
		grep -qE "^\.Cm (.* )?$name( |\$)" "$man/trainctl.1" || echo "trainctl.1: $name"
		trainctl "$name" --help | options "$man/trainctl.1"
	done <commands >>lacks
	awk '/^(static )?const struct verb .*= {/ { on = 1 } /^};/ { on = 0 } on && match($0, /{"[a-z-]+"/) {
		print substr($0, RSTART + 2, RLENGTH - 3) }' "$PACELINE_ROOT"/lib/*/*.c "$PACELINE_ROOT"/cmd/*.c | sort -u >verbs
	while read -r name; do
		grep -qE "(Cm|Li) $name( |\$)" "$man"/*.[78] || echo "paceline-protocol.7: $name"
	done <verbs >>lacks
	[ "$(wc -l <commands)" -gt 10 ]
	[ "$(wc -l <verbs)" -gt 50 ]
	cat lacks
	[ ! -s lacks ]
}

@test "the schemas of paceline-schema(5) are some, also the one that is written by hand" {
	awk '/^\.Sh / { on = $2 == "EXAMPLES" } on && /^(schema|dense|sparse|end)/ { print >"schema" n + 0 } /^end/ { n++ }' \
		"$PACELINE_ROOT/man/paceline-schema.5"
	printf 'age,occupation,income\n30,x,>50K\n40,y,no\n' >rows.csv
	model_file lr 1 1
	local name
	for name in schema0 schema1; do
		# 69: everything was taken, but there is no queue.
		run -69 worker --id w0 --shards none --servers none --wait 0 --data rows.csv --schema $name --model-file lr
		sed -i 's/occupation/education/' $name
		run -65 worker --id w0 --shards none --servers none --wait 0 --data rows.csv --schema $name --model-file lr
	done
}

@test "paceline-faq(7) explains messages that there are" {
	local words
	sed -n 's/^\.\\" says: //p' "$PACELINE_ROOT/man/paceline-faq.7" >says
	[ "$(wc -l <says)" -ge 15 ]
	while read -r words; do
		echo "$words"
		grep -rqF -- "$words" "$PACELINE_ROOT/lib" "$PACELINE_ROOT/cmd"
	done <says
}
