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
	bad 65 "PACELINE_OUT:3: 'step', but there is no batch" 'say next; say step; echo step >&4; sleep 100'
	bad 65 "PACELINE_OUT:2: 'next' before 'step'" 'say next; say next; sleep 100'
	bad 65 "PACELINE_OUT:2: loss=: 'low' " 'trap "" TERM; say next; say step loss=low; sleep 100'
	grep -q '^err code=bad-request' w0.heard
	bad 65 'the loss is not finite.*rows begin with row 0 of shard 0' 'say next; say step loss=nan; sleep 100'
}

@test "a trainer that ends before its time, or closes its pipes" {
	bad 65 'the trainer ended (exit status 0) before it was told state=end; 0 rows' 'exit 0'
	bad 65 'the trainer ended (exit status 0) before it was told state=end; 10 rows' 'say next; exit 0'
	bad 3 'the trainer ended: exit status 3' 'say next; say step; say next; exit 3'
	bad 1 'the trainer ended: exit status 1' 'say next; printf ste >&4; exit 1'
	bad 143 'the trainer ended: signal 15' 'say next; kill -TERM $$'
	bad 65 'has closed PACELINE_IN or PACELINE_OUT' 'say next; exec 4>&-; sleep 100'
	bad 65 'has closed PACELINE_IN or PACELINE_OUT' 'exec 3<&-; echo next >&4; sleep 100'
	# It does not wait for the answer of a push that is on its way.
	bad 65 'before it was told state=end; 0 rows' 'say next; echo step >&4; exit 0'
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
	grep -q 'is killed: it did not end within 0.3 s of SIGTERM' w0.err
	rm has
	agent_of w0 --grace 0.3 -- sh -c '. ./words.sh; say next; : >has; kill -STOP $$; sleep 100'
	wait_for '[ -e has ]'
	kill "$AGENT_w0"
	ends "$AGENT_w0" 0
	grep -q 'is killed: it did not end' w0.err
	[[ $(ask shardd.sock stat) == *" doing=0 "*" samples-done=10 "* ]]
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
}
