#!/usr/bin/env bats
# agent(1): trainers in sh, and what becomes of those that break the rules.
load helper

# queue [OPTION]...: 100 rows in shards of 16.
queue() {
	start shardd shardd -s "$T/shardd.sock" -j "$T/journal" -n 100 -b 8 -m 2 --settle-only "$@"
	SHARDD=$PID
	ready "$T/shardd.sock"
}

lead() {
	start lead ps-server -s "$T/lead.sock" --id lead --lead-only --shards "$T/shardd.sock" "$@"
	LEAD=$PID
	ready "$T/lead.sock"
}

# agent_of ID [OPTION]... -- COMMAND...
agent_of() {
	local id=$1
	shift
	start "$id" agent --id "$id" --shards "$T/shardd.sock" --lead "$T/lead.sock" --batch 10 "$@"
	printf -v "AGENT_$id" %s "$PID"
}

# A trainer that writes what it hears into ID.heard, and the rows of each batch into ID.rows.
trainer() {
	cat >words.sh <<-'END'
		# say WORD: the answer's last line in $word and $rest; where to save in $save
		save=
		say() {
			echo "$*" >&$PACELINE_OUT
			while read -r word rest <&$PACELINE_IN; do
				echo "$word $rest" >>$PACELINE_ID.heard
				case $word in
				range) echo "$rest" >>$PACELINE_ID.rows ;;
				save) save=${rest#path=} save=${save%% *} ;;
				ok|err) break ;;
				esac
			done
		}
	END
	cat >trainer.sh <<-'END'
		. ./words.sh
		while :; do
			say next
			case $rest in
			*state=end*) exit 0 ;;
			*state=wait*) continue ;;
			esac
			say step loss=0.5
		done
	END
}

# A trainer whose model is how often it trained each row: lines of ranges. It is written when it is due,
# and taken up again. With a file named ID.slow each batch takes a moment.
counter() {
	trainer
	cat >counter.sh <<-'END'
		. ./words.sh
		model=$PACELINE_ID.model
		: >$model
		[ -z "$PACELINE_RESUME" ] || cp "$PACELINE_RESUME" $model
		# due: writes what is due, as said before the answer; the answer to that is read, too
		due() {
			[ -n "$save" ] || return 0
			dir=$save save=
			cp $model "$dir/model"
			echo "saved path=model" >&$PACELINE_OUT
			read -r line <&$PACELINE_IN
			echo "$line" >>$PACELINE_ID.heard
		}
		while :; do
			: >$PACELINE_ID.rows
			say next
			state=$word/$rest
			due
			case $state in
			*state=end*) exit 0 ;;
			*state=wait*) continue ;;
			esac
			[ ! -e $PACELINE_ID.slow ] || sleep 0.02
			cat $PACELINE_ID.rows >>$model
			say step loss=0.5
			due
		done
	END
}

# finished: shardd says that all rows are done; then the lead lets everybody go.
finished() {
	wait_for '[[ $(ask shardd.sock stat) == *" todo=0 doing=0 "*" held=0 "* ]]'
	ask lead.sock finish >/dev/null
}

# The same, with a checkpoint of the end: they wait for it.
finished_with_a_cut() {
	wait_for '[[ $(ask shardd.sock stat) == *" todo=0 doing=0 "*" held=0 "* ]]'
	run ask lead.sock "cut path=$T/last"
	[[ $output == ok* ]] || { echo "$output"; return 1; }
	ask lead.sock finish >/dev/null
}

# ends PID STATUS: it ends by itself, with this status.
ends() {
	local status
	ended "$1"
	[ "$status" -eq "$2" ] || { echo "status $status, not $2"; tail -n 5 ./*.err; return 1; }
}

# each_row FILE... -- TIMES: ranges without shuffle name each of the 100 rows so many times.
each_row() {
	local times=${!#}
	sed 's/begin=//; s/length=//' "${@:1:$#-1}" | awk -v times="$times" '
		{ for (i = 0; i < $2; i++) n[$1 + i]++ }
		END { for (i = 0; i < 100; i++) if (n[i] != times) { print "row " i ": " n[i] + 0; bad = 1 }
			exit bad }'
}

@test "usage" {
	run -64 agent
	run -64 agent --id w0 --shards s --lead l
	run -64 agent --id w0 --shards s --lead l --rank 2/2 -- true
	run -64 agent --id w0 --shards s --lead l --rank one -- true
	run -64 agent --id w0 --shards s --lead l --env =x -- true
	run -64 agent --id w0 --shards s --lead l --env 'A B=x' -- true
	run -69 agent --id w0 --shards no.sock --lead no.sock --wait 0 -- true
}

@test "a trainer in sh has each row once an epoch, in batches of the size, and ends with the job" {
	queue --epochs 2
	lead
	trainer
	agent_of w0 --env COLOUR='dark red' -- sh -c 'echo "$PACELINE_ID $COLOUR $PACELINE_IN $PACELINE_OUT"; exec sh trainer.sh'
	finished
	ends "$AGENT_w0" 0
	each_row w0.rows 2
	[ "$(cat w0.out)" = "w0 dark red 3 4" ]
	grep -q '^batch iteration=0 size=10 accum=1 weight=1 lr-scale=1$' w0.heard
	grep -q '^ok iteration=1$' w0.heard
	[ "$(tail -n 1 w0.heard)" = "ok state=end" ]
	[[ $(ask shardd.sock stat) == *" samples-done=200 samples-repeated=0 "* ]]
	grep -q '^spent id=w0 .* iterations=20 ' w0.err
}

@test "two trainers share the rows; one that has nothing to do is told to wait" {
	queue
	lead
	trainer
	agent_of w0 -- sh trainer.sh
	agent_of w1 -- sh trainer.sh
	finished
	ends "$AGENT_w0" 0
	ends "$AGENT_w1" 0
	touch w0.rows w1.rows
	each_row w0.rows w1.rows 1
}

# cut DIR: a checkpoint, asked of the lead.
cut() { ask lead.sock "cut path=$T/$1"; }

@test "two trainers with models of their own: cut, death, back to the cut: each row exactly as often as epochs" {
	queue --epochs 3 --shuffle shards
	lead
	counter
	touch w0.slow w1.slow
	agent_of w0 -- sh counter.sh
	agent_of w1 -- sh counter.sh
	wait_for '[[ $(ask shardd.sock stat) == *" samples-done="[1-9][0-9]* ]]'
	run cut c1
	[[ $output == "ok path=$T/c1 iteration="[0-9]*" incarnation=1 stall="* ]]
	local k
	k=$(field iteration <<<"$output")
	[ "$k" -gt 0 ]
	ckpt verify c1
	grep -q "^checkpoint version=1 kind=foreign .* iteration=$k " c1/MANIFEST
	grep -q '^saved worker=w0 path=w0/model$' c1/MANIFEST
	grep -q '^file name=w1/model bytes=' c1/MANIFEST
	# Both models together are what the queue says.
	local rows
	rows=$(cat c1/w0/model c1/w1/model | awk '{ sub(/.*length=/, ""); n += $1 } END { print n }')
	[ "$rows" -gt 0 ]
	grep -q "iteration=$k" w0.heard
	# One is killed: everybody has to go back.
	wait_for '[ "$(ask lead.sock stat | field iteration)" -gt '"$((k + 2))"' ]'
	kill -9 "$(pgrep -P "$AGENT_w0")"
	ends "$AGENT_w0" 137
	grep -q 'the trainer ended: signal 9' w0.err
	run cut c2
	[[ $output == "err code=cut"*"w0 went with parameters that nobody has saved"* ]]
	[ ! -e c2 ]
	kill "$AGENT_w1"
	ends "$AGENT_w1" 0
	kill "$LEAD"
	ends "$LEAD" 0
	ask shardd.sock "load file=$T/c1/shards" >/dev/null
	[[ $(ask shardd.sock stat) == *" samples-done=$rows "* ]]
	lead --incarnation 2 --restore c1
	[ "$(ask lead.sock stat | field iteration)" = "$k" ]
	agent_of w0 --resume c1 -- sh counter.sh
	agent_of w1 --resume c1 -- sh counter.sh
	finished_with_a_cut
	ends "$AGENT_w0" 0
	ends "$AGENT_w1" 0
	grep -q "^resume path=$T/c1/w0/model iteration=$k\$" w0.heard
	each_row w0.model w1.model 3
	ckpt verify last
	each_row last/w0/model last/w1/model 3
	[ "$(ckpt list . | grep -c "kind=foreign")" = 2 ]
}
