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
		# say WORD: the answer's last line in $word and $rest, its batch in $batch
		say() {
			echo "$*" >&$PACELINE_OUT
			batch=
			while read -r word rest <&$PACELINE_IN; do
				echo "$word $rest" >>$PACELINE_ID.heard
				case $word in
				batch) batch=$rest ;;
				range) echo "$rest" >>$PACELINE_ID.rows ;;
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

# finished: shardd says that all rows are done; then the lead lets everybody go.
finished() {
	wait_for '[[ $(ask shardd.sock stat) == *" todo=0 doing=0 "*" held=0 "* ]]'
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
