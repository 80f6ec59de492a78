#!/usr/bin/env bats
# rooms: agent work
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
			[ ! -e $PACELINE_ID.slow ] || sleep 0.2
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
	run -64 agent --id w0 --shards s --lead l --output out -- true
	[[ $output == *"--output: is for --each"* ]]
	run -69 agent --id w0 --shards no.sock --lead no.sock --wait 0 -- true
	queue
	layouts d4
	start ps0 ps-server -s ps0.sock --id ps0 --layout d4
	ready ps0.sock
	run -78 agent --id w0 --shards shardd.sock --lead ps0.sock -- true
	[[ $output == *"ps0.sock: keeps parameters itself"* ]]
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
	grep -q '^batch iteration=0 size=10 accum=1 weight=1 lr-scale=1 epoch=0 samples=10 samples-done=0 samples-all=200$' w0.heard
	grep -q '^ok iteration=1$' w0.heard
	[ "$(tail -n 1 w0.heard)" = "ok state=end" ]
	[[ $(ask shardd.sock stat) == *" samples-done=200 samples-repeated=0 "* ]]
	grep -q '^spent id=w0 .* iterations=20 ' w0.err
}

@test "what a trainer does not say of the time of its batch it was in collectives" {
	queue
	lead
	trainer
	sed -i 's/say step .*/sleep 0.02; say step time=0.001/' trainer.sh
	agent_of w0 -- sh trainer.sh
	finished
	ends "$AGENT_w0" 0
	grep -q '^spent id=w0 compute=0.0[12][0-9]* comm=\([1-9]\|0\.[1-9]\)' w0.err
}

@test "two trainers share the rows; one that has nothing to do is told to wait" {
	queue
	lead
	trainer
	agent_of w0 -- sh trainer.sh
	agent_of w1 -- sh trainer.sh
	wait_for 'grep -q "^ok state=wait" w0.heard && grep -q "^ok state=wait" w1.heard'
	finished
	ends "$AGENT_w0" 0
	ends "$AGENT_w1" 0
	touch w0.rows w1.rows
	each_row w0.rows w1.rows 1
}

@test "commits do not wait for the disk while all trainers end with this boot; with one that does not say so they do" {
	queue --epochs 2
	lead
	trainer
	# Who is of an incarnation that is over does not count.
	[[ $(ask lead.sock "join worker=x generation=1 incarnation=0") == "err "* ]]
	agent_of w0 -- sh trainer.sh
	finished
	ends "$AGENT_w0" 0
	[ "$(ask shardd.sock stat | field boot)" = "$(cat /proc/sys/kernel/random/boot_id)" ]
	kill "$SHARDD" "$LEAD"
	ended "$SHARDD"
	ended "$LEAD"
	rm -r journal
	queue --epochs 2
	lead
	[[ $(ask lead.sock "join worker=x generation=1 incarnation=1") == "ok iteration=0 "* ]]
	agent_of w0 -- sh trainer.sh
	finished
	ends "$AGENT_w0" 0
	[ "$(ask shardd.sock stat | field boot)" = "" ]
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
	wait_for '[ "$(ask lead.sock members | grep -c state=active)" = 2 ]'
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
	[[ $output == "err code=cut"*"w0 left with parameters that were not saved"* ]]
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

# ---- what comes with a batch ----

@test "weights make the plain mean over trainers the mean over samples; --rank waits for all" {
	queue
	lead
	trainer
	# Each takes part in every iteration. Sizes are 10 and 5.
	sed 's/say next/say next empty=1/' trainer.sh >all.sh
	agent_of w0 --rank 0/2 -- sh all.sh
	wait_for 'ask lead.sock members | grep -q "worker=w0 .*state=active"'
	[[ $(ask lead.sock stat) == *" iteration=0 "* ]]
	agent_of w1 --rank 1/2 --batch 5 -- sh all.sh
	finished
	ends "$AGENT_w0" 0
	ends "$AGENT_w1" 0
	each_row w0.rows w1.rows 1
	# Whole batches: 2 * 10 / 15 and 2 * 5 / 15.
	grep -q '^batch iteration=0 size=10 .*weight=1.33333' w0.heard
	grep -q '^batch iteration=0 size=5 .*weight=0.66666' w1.heard
	# Both have been in all iterations, with rows or without, and weights of one add up to two.
	grep -h '^batch' w0.heard >w0.batches
	grep -h '^batch' w1.heard >w1.batches
	sed -i 's/ lr-scale=.*//; s/$/ lr-scale=1/' w?.batches
	paste -d ' ' w0.batches w1.batches | sed 's/[a-z-]*=//g' |
		awk '$2 != $8 { bad = 1 } $5 + $11 < 1.999999 || $5 + $11 > 2.000001 { bad = 1 }
			$3 == 0 && $5 != 0 { bad = 1 } END { exit bad || NR < 7 }'
}

@test "a trainer that has no rows hears of a checkpoint all the same, and holds up nobody" {
	queue
	lead
	counter
	touch w0.slow
	agent_of w0 --ahead 20 --batch 5 -- sh counter.sh # takes all
	wait_for '[ "$(ask lead.sock stat | field iteration)" -gt 1 ]'
	agent_of w1 -- sh counter.sh
	wait_for 'ask lead.sock members | grep -q "worker=w1 .*state=active"'
	run cut c1
	[[ $output == ok* ]] || { echo "$output"; cat ./*.err; return 1; }
	ckpt verify c1
	grep -q '^saved worker=w0 path=w0/model$' c1/MANIFEST
	grep -q '^saved worker=w1 ' c1/MANIFEST
	rm w0.slow
	finished
	ends "$AGENT_w0" 0
	ends "$AGENT_w1" 0
	each_row w0.model w1.model 1
}

@test "a trainer says enough: all end with the same batch, and what is left of the queue comes back" {
	queue --epochs 20
	lead
	trainer
	sed 's/say next/say next empty=1/; s/say step .*/&; case $rest in iteration=7) say enough why=good ;; esac/' trainer.sh >all.sh
	sed 's/say next/say next empty=1/' trainer.sh >other.sh
	agent_of w0 --rank 0/2 -- sh all.sh
	agent_of w1 --rank 1/2 --batch 5 -- sh other.sh
	start watch bash -c 'socat -t 300 - UNIX-CONNECT:lead.sock < <(echo watch; exec sleep 300)'
	wait_for '[ "$(ask lead.sock members | grep -c state=ended)" -eq 2 ]'
	grep -q '^enough worker=w0 why=good' watch.out
	ask lead.sock finish >/dev/null
	ends "$AGENT_w0" 0
	ends "$AGENT_w1" 0
	[ "$(grep -c '^batch' w0.heard)" = "$(grep -c '^batch' w1.heard)" ]
	[[ $(ask shardd.sock stat) == *" doing=0 "* ]]
	[[ $(ask shardd.sock stat) != *" todo=0 "* ]]
	run ask lead.sock 'enough worker=w0 generation=9 incarnation=1'
	[[ $output == *"err code=fenced"* ]] || { echo "$output"; return 1; }
}

@test "actions come with the batch: size, accumulation, learning rate" {
	queue --epochs 20
	lead
	trainer
	sed -i 's/say step/sleep 0.01; say step/' trainer.sh
	agent_of w0 -- sh trainer.sh
	wait_for '[ "$(ask lead.sock stat | field iteration)" -gt 1 ]'
	printf '%s\n' 'action kind=adjust-bs id=w0 size=4 accum=3' 'action kind=adjust-lr id=w0 scale=0.5' >acts
	{ echo "act bytes=$(wc -c <acts)"; cat acts; } | socat -t 20 - UNIX-CONNECT:lead.sock >acted
	local k
	k=$(tail -n 1 acted | field iteration)
	finished
	ends "$AGENT_w0" 0
	grep -q "^batch iteration=$k size=12 accum=3 weight=1 lr-scale=0.5 " w0.heard
	grep -q "^batch iteration=$((k - 1)) size=10 accum=1 weight=1 lr-scale=1 " w0.heard
	grep -q "^applied kind=adjust-bs id=w0 size=4 accum=3 iteration=$k " w0.err
	each_row w0.rows 20
}

@test "ASP and SSP: no barrier, weight 1; a checkpoint comes to each with its next answer" {
	local sync
	for sync in asp ssp:2; do
		rm -rf journal ./w?.* c1
		queue --epochs 6
		lead --sync $sync
		counter
		touch w0.slow w1.slow
		agent_of w0 -- sh counter.sh
		agent_of w1 --batch 5 -- sh counter.sh
		wait_for '[ "$(ask lead.sock members | grep -c state=active)" = 2 ]'
		wait_for '[ "$(ask lead.sock stat | field iteration)" -gt 2 ]'
		run cut c1
		[[ $output == ok* ]] || { echo "$output"; return 1; }
		ckpt verify c1
		grep -q "^saved worker=w1 path=w1/model" c1/MANIFEST
		rm w0.slow w1.slow
		finished
		ends "$AGENT_w0" 0
		ends "$AGENT_w1" 0
		each_row w0.model w1.model 6
		not grep -v 'weight=1 ' <(grep -h '^batch' w0.heard w1.heard)
		kill "$LEAD" "$SHARDD"
		ends "$LEAD" 0
		ends "$SHARDD" 0
	done
}

@test "ASP: who waits for rows gets those that come back, and its step is answered" {
	queue -m 1
	lead --sync asp
	trainer
	sed 's/^say step.*/until [ -e go ]; do sleep 0.05; done; &/' trainer.sh >held.sh
	agent_of w0 --batch 30 --ahead 8 -- sh held.sh
	wait_for '[ -s w0.rows ] && [[ $(ask shardd.sock stat) == *" todo=0 "* ]]'
	agent_of w1 -- sh trainer.sh
	wait_for 'grep -q state=wait w1.heard'
	kill "$AGENT_w0"
	touch go
	ends "$AGENT_w0" 0
	finished
	ends "$AGENT_w1" 0
	each_row w0.rows w1.rows 1
}

@test "a lead that lives and does not move: agent ends with 75" {
	queue
	lead
	trainer
	sed 's/^say step.*/until [ -e go ]; do sleep 0.05; done; &/' trainer.sh >held.sh
	agent_of w0 --answer 2 -- sh held.sh
	wait_for '[ -s w0.rows ]'
	kill -STOP "$LEAD"
	touch go
	ends "$AGENT_w0" 75
	grep -q 'lead.sock: no answer within 2 s' w0.err
	kill -CONT "$LEAD"
}

@test "what can't be saved: the checkpoint is given up by name, training goes on" {
	queue --epochs 3
	lead
	counter
	touch w0.slow w1.slow
	sed 's/saved path=model/saved path=nothing/' counter.sh >nothing.sh
	agent_of w0 -- sh counter.sh
	agent_of w1 -- sh nothing.sh
	wait_for '[ "$(ask lead.sock members | grep -c state=active)" = 2 ]'
	wait_for '[ "$(ask lead.sock stat | field iteration)" -gt 1 ]'
	run cut c1
	[[ $output == "err code=cut"*"w1: "*"c1/w1/nothing: can't be found"* ]] || { echo "$output"; return 1; }
	[ ! -e c1 ]
	grep -q '^err code=no-file' w1.heard
	rm w0.slow w1.slow
	finished
	ends "$AGENT_w0" 0
	ends "$AGENT_w1" 0
}

@test "resume: what the first one saved, for who saved nothing; what is damaged is refused" {
	queue --epochs 3
	lead --job count
	counter
	touch w0.slow w1.slow
	sed 's/saved path=model/saved/' counter.sh >nothing.sh
	agent_of w0 -- sh counter.sh
	agent_of w1 -- sh nothing.sh
	wait_for '[ -s w0.model ] && [ -s w1.model ]' # both have trained
	cut c1 | grep '^ok'
	grep -q '^saved worker=w1$' c1/MANIFEST
	[[ $(ckpt show c1) == "checkpoint kind=foreign job=count "* ]]
	rm w0.slow w1.slow
	finished
	agent_of w2 --resume c1 -- sh -c '. ./words.sh; say next; echo "$PACELINE_RESUME" >resumed; sleep 1000'
	wait_for '[ -s resumed ]'
	[ "$(cat resumed)" = "$T/c1/w0/model" ]
	grep -q "^resume path=$T/c1/w0/model iteration=[0-9]* from=w0\$" w2.heard
	flip c1/w0/model 3
	run -1 ckpt verify c1
	[[ $output == *"c1/w0/model: is damaged: its checksum differs"* ]]
	run -65 agent --id w0 --shards shardd.sock --lead lead.sock --resume c1 -- true
	[[ $output == *"c1/w0/model: is damaged"* ]]
	run -66 agent --id w0 --shards shardd.sock --lead lead.sock --resume c2 -- true
	# A path that takes more than a line, as a space is written as three.
	flip c1/w0/model 3
	ckpt verify c1
	local spaces deep
	printf -v spaces %250s
	deep=$spaces/$spaces/$spaces/$spaces/$spaces/$spaces
	mkdir -p "$deep"
	cp -r c1 "$deep/c1"
	run -78 agent --id w0 --shards shardd.sock --lead lead.sock --resume "$deep/c1" -- true
	[[ $output == *"the full path is too long for a line to the trainer"* ]]
	run -78 predict --checkpoint c1 x.csv
	[[ $output == *"its parameters are files of trainers of your own, which the kit can't read"* ]]
}

# ---- trainers that break the rules ----

# whole: all that was handed out came back, and another trainer does it all, each row once.
whole() {
	wait_for '[[ $(ask shardd.sock stat) == *" doing=0 "* ]]'
	trainer
	agent_of good -- sh trainer.sh
	finished
	ends "$AGENT_good" 0
	[[ $(ask shardd.sock stat) == *" samples-done=100 "* ]]
}

# bad STATUS TEXT COMMAND: ends so, says so, and nothing is lost.
bad() {
	rm -rf journal ./*.rows ./*.heard
	[ -z "${LEAD-}" ] || { kill "$LEAD" "$SHARDD"; wait "$LEAD" "$SHARDD" || true; }
	queue
	lead
	trainer
	printf '. ./words.sh\n%s\n' "$3" >bad.sh
	agent_of w0 --grace 0.5 -- sh bad.sh
	ends "$AGENT_w0" "$1"
	grep -qe "$2" w0.err || { echo "$3: not '$2':"; cat w0.err; return 1; }
	whole
}

@test "a trainer that breaks the rules: the line is named, nothing is lost, nobody else is harmed" {
	bad 65 "PACELINE_OUT:1: 'Epoch 1 of 3' is no record: " 'echo "Epoch 1 of 3" >&4; sleep 100'
	bad 65 "PACELINE_OUT:1: '?*' is no record: " 'head -c 300 /dev/zero >&4; echo >&4; sleep 100'
	bad 65 'PACELINE_OUT:2: .*more than 4096 bytes' 'say next; printf "step loss=%05000d\n" 1 >&4; sleep 100'
	bad 65 "PACELINE_OUT:2: 'ste' ends without a newline" 'say next; printf ste >&4'
	bad 65 "PACELINE_OUT:3: 'step', but all batches are done" 'say next; say step; echo step >&4; sleep 100'
	bad 65 "PACELINE_OUT:2: 'next' before 'step'" 'say next; say next; sleep 100'
	bad 65 "PACELINE_OUT:2: loss=: 'low' " 'trap "" TERM; say next; say step loss=low; sleep 100'
	grep -q '^err code=bad-request' w0.heard
	bad 65 'the loss is not finite.*rows begin with row 0 of shard 0' 'say next; say step loss=nan; sleep 100'
}

@test "a trainer that ends before its time, or closes its pipes" {
	bad 65 'asked for no batch: .*paceline.Loader or by paceline.batches(), others say next and step .*is a filter, see --rows and --each' 'exit 0'
	bad 65 'the trainer ended (exit status 0) before it was told state=end, .* is left early; 0 rows' 'say hello; exit 0'
	bad 65 'the trainer ended (exit status 0) before it was told state=end, .* is left early; 10 rows' 'say next; exit 0'
	bad 3 'the trainer ended: exit status 3' 'say next; say step; say next; exit 3'
	bad 1 'the trainer ended: exit status 1' 'say next; printf ste >&4; exit 1'
	bad 143 'the trainer ended: signal 15' 'say next; kill -TERM $$'
	bad 65 'has closed PACELINE_IN or PACELINE_OUT' 'say next; exec 4>&-; sleep 100'
	bad 65 'has closed PACELINE_IN or PACELINE_OUT' 'exec 3<&-; echo next >&4; sleep 100'
	# It does not wait for the answer of a push that is on its way.
	bad 65 'before it was told state=end, .* is left early; 0 rows' 'say next; echo step >&4; exit 0'
}

@test "words that are not known are answered, and the trainer goes on; what it prints goes where ours goes" {
	queue
	lead
	trainer
	agent_of w0 -- sh -c '. ./words.sh; say hello; say saved; say log level=info; echo to stdout; echo to stderr >&2; exec sh trainer.sh'
	finished
	ends "$AGENT_w0" 0
	grep -q '^err code=unknown-request' w0.heard
	grep -q '^err code=order' w0.heard
	[ "$(cat w0.out)" = "to stdout" ]
	grep -qx 'to stderr' w0.err
	each_row w0.rows 1
}

@test "what a trainer in Python prints is there at once, unless somebody wants it otherwise" {
	needs_python
	queue
	lead
	trainer
	unset PYTHONUNBUFFERED
	agent_of w0 -- sh -c 'python3 -c "import time; print(1); time.sleep(600)" & exec sh trainer.sh'
	wait_for '[ "$(cat w0.out)" = 1 ]'
	PYTHONUNBUFFERED= agent_of w1 -- sh -c 'echo "$PYTHONUNBUFFERED." >&2; exec sh trainer.sh'
	finished
	ends "$AGENT_w0" 0
	ends "$AGENT_w1" 0
	grep -qxF . w1.err
}

@test "what a trainer leaves behind is killed, and not waited for" {
	queue
	lead
	trainer
	# One in its group, which holds all it had; one that has left the group, with the pipes.
	agent_of w0 -- sh -c 'sleep 1000 & echo $! >left; setsid sleep 1000 >/dev/null 2>&1 & echo $! >away; exec sh trainer.sh'
	finished
	ends "$AGENT_w0" 0
	PIDS+=("$(cat away)")
	wait_for 'not kill -0 "$(cat left)" 2>/dev/null'
	each_row w0.rows 1
}

@test "a stop: the batch is finished; a trainer that ignores SIGTERM, or is stopped itself, is killed" {
	queue
	lead
	trainer
	agent_of w0 -- sh -c '. ./words.sh; say next; : >has; while [ ! -e go ]; do sleep 0.05; done; say step; say next; sleep 100'
	wait_for '[ -e has ]'
	kill "$AGENT_w0"
	: >go
	ends "$AGENT_w0" 0
	[[ $(ask shardd.sock stat) == *" doing=0 "*" samples-done=10 "* ]]
	rm has go
	agent_of w0 --grace 0.3 -- sh -c 'trap "" TERM; . ./words.sh; say next; : >has; sleep 100; sleep 100'
	wait_for '[ -e has ]'
	kill "$AGENT_w0"
	ends "$AGENT_w0" 0
	grep -q 'has not finished its batch within 0.3 s' w0.err
	grep -q 'is killed: it did not end within 0.3 s after SIGTERM' w0.err
	rm has
	agent_of w0 --grace 0.3 -- sh -c '. ./words.sh; say next; : >has; kill -STOP $$; sleep 100'
	wait_for '[ -e has ]'
	kill "$AGENT_w0"
	ends "$AGENT_w0" 0
	grep -q 'is killed: it did not end' w0.err
	[[ $(ask shardd.sock stat) == *" doing=0 "*" samples-done=10 "* ]]
}

@test "a stop while the trainer says words without end" {
	needs_python
	queue
	lead
	# As fast as it can, into and out of the largest pipes: the next word is always there.
	cat >flood.py <<-'END'
		import fcntl, os
		for fd in 3, 4:
		    fcntl.fcntl(fd, 1031, 1 << 20) # F_SETPIPE_SZ
		if os.fork() == 0:
		    while os.read(3, 1 << 20):
		        pass
		os.fork()
		open("has", "w")
		while True:
		    os.write(4, b"pause\n" * 682) # whole words: no more than PIPE_BUF
	END
	agent_of w0 --grace 0.3 -- python3 flood.py
	wait_for '[ -e has ]'
	kill "$AGENT_w0"
	ends "$AGENT_w0" 0
}

@test "an agent that is killed takes its trainer with it; a command that can't be run is named" {
	queue
	lead
	trainer
	agent_of w0 -- sh -c 'echo $$ >pid; . ./words.sh; say next; : >has; sleep 1000'
	wait_for '[ -e has ]'
	kill -9 "$AGENT_w0"
	ends "$AGENT_w0" 137
	wait_for 'not kill -0 "$(cat pid)" 2>/dev/null'
	agent_of w1 -- ./no-such-program
	ends "$AGENT_w1" 78
	grep -q 'agent: ./no-such-program: No such file' w1.err
}

@test "shardd comes back: a trainer goes on; the lead goes: it has to go back" {
	queue
	lead
	trainer
	agent_of w0 -- sh -c '. ./words.sh; say next; : >has; while [ ! -e go ]; do sleep 0.05; done; say step; exec sh trainer.sh'
	wait_for '[ -e has ]'
	kill -9 "$SHARDD"
	wait "$SHARDD" || true
	queue
	: >go
	finished
	ends "$AGENT_w0" 0
	each_row w0.rows 1
	rm -rf journal has go
	kill "$LEAD" "$SHARDD"
	wait "$LEAD" "$SHARDD" || true
	queue
	lead
	agent_of w0 -- sh -c '. ./words.sh; say next; : >has; sleep 1000'
	wait_for '[ -e has ]'
	kill -9 "$LEAD"
	ends "$AGENT_w0" 75
	grep -q 'the lead went away, and the trainer.s parameters' w0.err
	# When it is stopped itself, as at the end of a job, nobody has to go back.
	rm has
	lead
	agent_of w0 -- sh -c '. ./words.sh; say next; : >has; sleep 1000'
	wait_for '[ -e has ]'
	kill -STOP "$AGENT_w0"
	kill -9 "$LEAD"
	kill "$AGENT_w0"
	kill -CONT "$AGENT_w0"
	ends "$AGENT_w0" 75
	grep -q 'stopped; the lead had ended before' w0.err
	not grep -q 'has to go back' w0.err
}

@test "the lead goes when the job is finished: a trainer that still writes its result is left to it" {
	queue
	lead
	trainer
	sed 's/.*state=end.*/*state=end*) : >told; while [ ! -e go ]; do sleep 0.05; done; : >result; exit 0 ;;/' \
		trainer.sh >writes.sh
	agent_of w0 -- sh writes.sh
	finished
	wait_for '[ -e told ]'
	sockets() { ls -l "/proc/$AGENT_w0/fd" 2>/dev/null | grep -c socket; }
	local before
	before=$(sockets) || true
	kill -9 "$LEAD"
	ended "$LEAD" || true
	wait_for '[ "$(sockets)" -lt "$before" ]' # it has noticed
	: >go
	ends "$AGENT_w0" 0
	[ -e result ]
}

# ---- the example ----

@test "the example in sh and awk: logistic regression, as one program by itself would; killed, it goes on from its save" {
	awk 'BEGIN { srand(1); print "y,x1,x2"; for (i = 0; i < 100; i++) { a = rand() - 0.5; b = rand() - 0.5
		print (a - 2 * b > 0.2 * (rand() - 0.5)) "," a "," b } }' >d.csv
	# The same by itself: batches of 10 rows in their order, four times.
	awk -F, 'FNR > 1 { p = 1 / (1 + exp(-(w1 + w2 * $2 + w3 * $3)))
			g1 += p - $1; g2 += (p - $1) * $2; g3 += (p - $1) * $3
			if (++n == 10) { w1 -= 0.01 * g1; w2 -= 0.01 * g2; w3 -= 0.01 * g3; n = g1 = g2 = g3 = 0 } }
		END { printf "%.5f %.5f %.5f\n", w1, w2, w3 }' d.csv d.csv d.csv d.csv >alone
	queue --epochs 4
	lead
	agent_of w0 -- "$PACELINE_ROOT/scripts/examples/trainer.sh" d.csv model
	wait_for '[ "$(ask lead.sock stat | field iteration)" -gt 3 ]'
	run cut c%201 # a name with a space
	[[ $output == ok* ]] || { echo "$output"; cat w0.err; return 1; }
	kill -9 "$AGENT_w0" "$LEAD"
	wait "$AGENT_w0" "$LEAD" || true
	ask shardd.sock "load file=$T/c%201/shards" >/dev/null
	lead --incarnation 2 --restore "c 1"
	agent_of w0 --resume "c 1" -- "$PACELINE_ROOT/scripts/examples/trainer.sh" d.csv model
	finished
	ends "$AGENT_w0" 0
	# Rows that came back came in another order: close, and not to the digit.
	paste -d ' ' alone model | awk '{ for (i = 1; i <= 3; i++) if (($i - $(i + 3)) ^ 2 > 0.02 ^ 2) exit 1 }' || {
		cat alone model
		return 1
	}
}

@test "what is saved may be many files with long names" {
	queue --epochs 3
	lead
	counter
	touch w0.slow
	# Each is named by some 1500 bytes: a space is three.
	cat >>words.sh <<-'END'
		many() {
			deep="$1/all/$(printf %250s)/$(printf %245s)"
			mkdir -p "$deep"
			i=0
			while [ $i -lt 1400 ]; do
				: >"$deep/$i"
				i=$((i + 1))
			done
		}
	END
	sed 's/cp $model "$dir.model"/many "$dir"/; s/path=model/path=all/' counter.sh >many.sh
	agent_of w0 -- sh many.sh
	wait_for '[ "$(ask lead.sock stat | field iteration)" -gt 1 ]'
	run cut c1
	[[ $output == ok* ]] || { echo "$output"; cat w0.err; return 1; }
	[ "$(grep -c '^file name=w0/all/' c1/MANIFEST)" -eq 1400 ]
	rm w0.slow
	finished
	ends "$AGENT_w0" 0
}

@test "what is saved may be a directory, or lie elsewhere" {
	queue --epochs 3
	lead
	counter
	touch w0.slow w1.slow
	sed 's/cp $model "$dir.model"/mkdir -p "$dir\/all\/deep"; cp $model "$dir\/all\/deep\/model"; echo 1 >"$dir\/all\/step"/; s/path=model/path=all/' \
		counter.sh >tree.sh
	sed "s|cp \$model \"\$dir.model\"|cp \$model '$T/else where'|; s|path=model|path=$T/else%20where|" counter.sh >elsewhere.sh
	agent_of w0 -- sh tree.sh
	agent_of w1 -- sh elsewhere.sh
	wait_for '[ "$(ask lead.sock members | grep -c state=active)" = 2 ]'
	wait_for '[ "$(ask lead.sock stat | field iteration)" -gt 1 ]'
	run cut c1
	[[ $output == ok* ]] || { echo "$output"; cat c1/MANIFEST; return 1; }
	grep -q '^saved worker=w0 path=w0/all$' c1/MANIFEST
	grep -q '^file name=w0/all/deep/model bytes=' c1/MANIFEST
	grep -q '^file name=w0/all/step bytes=2 ' c1/MANIFEST
	grep -q "^saved worker=w1 path=$T/else%20where\$" c1/MANIFEST
	[ ! -e c1/w1/model ]
	ckpt verify c1
	echo more >>c1/w0/all/step
	run -1 ckpt verify c1
	[[ $output == *"c1/w0/all/step: has 7 bytes in place of 2"* ]]
	run -65 agent --id w0 --shards shardd.sock --lead lead.sock --resume c1 -- true
	rm w0.slow w1.slow
	finished
	ends "$AGENT_w0" 0
	ends "$AGENT_w1" 0
	agent_of w1 --resume c1 -- sh -c '. ./words.sh; say next; echo "$PACELINE_RESUME" >resumed; sleep 1000'
	wait_for '[ -s resumed ]'
	[ "$(cat resumed)" = "$T/else where" ]
}

# ---- how fast it is ----

# device_job SYNC: a lead, a monitor that only listens, and w0, whose device is emulated by own-rows-trainer.py.
device_job() {
	needs_python
	start monitor socat -u "UNIX-LISTEN:$T/mon.sock,fork" "OPEN:$T/mon,creat,append"
	ready "$T/mon.sock"
	queue --epochs 20
	lead --sync bsp "$@"
}

# The same job once more.
again() {
	kill "$LEAD" "$SHARDD"
	ended "$LEAD"
	ended "$SHARDD"
	rm -rf "$T/journal" mon
	queue --epochs 20
	lead --sync bsp
}

# device_rank [OPTION]...
device_rank() {
	agent_of w0 --monitor "$T/mon.sock" --report-every 1 --batch 16 --device-file "$T/kept" "$@" -- \
		python3 "$BATS_TEST_DIRNAME/fault/own-rows-trainer.py" --ranks 100 "$T/pace"
}

# sizes ID N: the first N sizes of its batches
sizes() { awk -v n="$2" '/^batch / && n-- > 0 { printf "%s%s", sep, $2; sep = " " }' "$1.out"; }

device_ends() {
	wait_for '[[ $(ask "$T/shardd.sock" stat) == *" todo=0 doing=0 "* ]]'
	ask "$T/lead.sock" finish >/dev/null
	ended "$AGENT_w0"
	[ "$status" -eq 0 ] || { cat w0.err; return 1; }
}

@test "profile: the first batches differ in size; what they show is told, and remembered" {
	echo "launch=0.002 speed=4000 saturation=6 base=0.25 each=0.005" >device.w0
	device_job
	device_rank --profile 1
	device_ends
	[ "$(sizes w0 14)" = "16 1 1 2 2 4 4 8 8 16 16 32 32 16" ] || { sizes w0 20; return 1; }
	grep '^device ' mon >told
	grep -q "^device role=worker id=w0 type=emulated launch=0.002 speed=4000 saturation=6 max=140 at=" told || { cat told; return 1; }
	# Nobody is compared by batches of other sizes.
	not grep -q '^bpt .* size=32 ' mon
	grep -q '^bpt .* size=16 ' mon
	# The next process of this node measures nothing; one with another device does.
	again
	device_rank --profile 1
	device_ends
	[ "$(sizes w0 3)" = "16 16 16" ]
	[ "$(grep -c "^device .* type=emulated .* max=140 " mon)" -eq 1 ]
}

@test "fits: a trainer whose memory is full gets its batches in parts, in its next life, too" {
	echo "launch=0.001 speed=8000 saturation=1 fits=7" >device.w0
	device_job
	device_rank
	device_ends
	grep -q 'the memory of w0 is full: more than 4 rows are computed in parts' w0.err
	# It was told once: then the agent says how many parts there are.
	[ "$(sort -u w0.out)" = "batch 16 4" ] || { sort -u w0.out; return 1; }
	[ "$(grep -c '^device .* type=emulated .* speed=0 .* max=4 ' mon)" -eq 1 ] || { cat mon; return 1; }
	again
	sed -i s/fits=7/fits=1000/ device.w0
	device_rank --profile 1 # of sizes that fit; the largest ones do not
	device_ends
	[ "$(sizes w0 8)" = "16 1 1 2 2 4 4 16" ] || { sizes w0 10; return 1; }
	[ "$(grep -c ' max=4 ' mon)" -eq 2 ]
	grep -q '^batch 16 4$' w0.out
	again # another device: twice the batch does not fit it, the batch does
	rm kept
	echo "launch=0.001 speed=8000 saturation=1 base=0.2 each=0.03 fits=20" >device.w0
	device_rank --profile 1
	device_ends
	[ "$(sizes w0 13)" = "16 1 1 2 2 4 4 8 8 16 16 32 16" ] || { sizes w0 15; return 1; }
	grep -q '^device .* max=16 ' mon || { cat mon; return 1; }
	not grep '^batch 16 8$' w0.out
}

@test "fits: what a hostile trainer says of its device is refused, or ends it" {
	queue
	lead
	trainer
	sed -i 's/say step loss=0.5/say fits rows=0; say fits; say fits rows=x; say fits rows=16777217; say report values=a:1; say step work=-1/' trainer.sh
	agent_of w0 -- sh trainer.sh
	ends "$AGENT_w0" 65
	[ "$(grep -c '^err code=bad-request.*rows=' w0.heard)" -eq 4 ] || { cat w0.heard; return 1; }
	grep -q "work=: -1 is not in" w0.err
	run -64 agent --id w0 --shards s --lead l --profile 16777217 -- true
	run -64 agent --id w0 --shards s --lead l --predict-load f -- true
	run -64 agent --id w0 --shards s --each --profile 1 -- true
	run -64 agent --id w0 --shards s --each --device-file f -- true
}

@test "work: next to none after very much does not end the job" {
	device_job
	trainer
	sed -i 's/say step loss=0.5/n=$((n + 1)); say step time=1 work=1e$((n % 2 * 20 - 5))/' trainer.sh
	agent_of w0 --batch 20 -- sh trainer.sh
	device_ends
}

@test "work: a batch of long rows does not count as a slow one" {
	device_job
	trainer
	# It takes 0.1 s for each 100 units of work; every other batch has rows that are three times as long.
	sed -i 's/say step loss=0.5/n=$((n + 1)); say step time=0.$((1 + n % 2 * 2)) work=$((100 + n % 2 * 200))/' trainer.sh
	agent_of w0 --monitor "$T/mon.sock" --report-every 1 --batch 20 -- sh trainer.sh
	device_ends
	grep '^bpt .* size=20 ' mon | tail -n 6 | plrec tsv time compute |
		awk '{ d = $1 - 0.2; n += d > -0.01 && d < 0.01; long += $2 == 0.3; short += $2 == 0.1 }
			END { exit !(n == 6 && long == 3 && short == 3) }' || { tail -n 6 mon; return 1; }
}
