#!/usr/bin/env bats
# rooms: agent
# agent(1) --each: a command for each shard.
load helper

# queue ROWS [OPTION]...: in shards of 10.
queue() {
	local rows=$1
	shift
	start shardd shardd -s "$T/s.sock" -j "$T/journal" -n "$rows" -b 10 -m 1 "$@"
	SHARDD=$PID
	ready "$T/s.sock"
}

each() { agent --id w0 --shards "$T/s.sock" --each "$@"; }
stat_of() { ask "$T/s.sock" stat | field "$1"; }

@test "usage" {
	run -64 agent --id w0 --shards s --each
	[[ $output == *"a COMMAND"* ]]
	run -64 agent --id w0 --shards s --each --lead l -- true
	[[ $output == *"--each: needs no --lead"* ]]
	run -64 agent --id w0 --shards s --each --rank 0/2 -- true
	run -64 agent --id w0 --shards s --each --header -- true
	[[ $output == *"need --rows"* ]]
	run -64 agent --id w0 --shards s --rows f --output o -- cat
	[[ $output == *"--output: is for --each"* ]]
	run -64 agent --id w0 --shards s --rows f --jobs 2 -- cat
	run -64 agent --id w0 --shards s --each --jobs 0 -- true
}

@test "runs the command once for each shard, which it finds in its environment" {
	queue 95 -e 2
	run -0 --separate-stderr each --env HOW=well -- sh -c \
		'echo "$SHARD $BEGIN $LENGTH $EPOCH $PACELINE_ID $HOW ${PACELINE_OUT-none}"; cat'
	[ "$(sort -n <<<"$output" | sed -n '1p;10,11p')" = "0 0 10 0 w0 well none
9 90 5 0 w0 well none
10 0 10 1 w0 well none" ]
	[ "${#lines[@]}" -eq 20 ]
	[ "$stderr" = "" ]
	[ "$(stat_of samples-done)" = 190 ]
	# There is nothing left.
	run -0 each -- false
	[ "$output" = "" ]
}

@test "rows on standard input, and files by rename: together they are the data, byte by byte" {
	seq 995 | sed 's/$/,some text/' >a
	{ echo n,text; cat a; } >a.csv
	{ echo n,text; seq 5 | sed 's/$/,"two\nlines, quoted"/'; printf '6,no newline'; } >b.csv
	queue 1001 -e 2
	run -0 each --rows a.csv,b.csv --output out --jobs 3 -- cat
	[ "$output" = "" ]
	{ cat a; tail -n +2 b.csv; echo; } >want
	cat want want >twice
	cat out/* | cmp - twice
	[ "$(ls -A out | wc -l)" -eq 202 ]
	[ "$(ls out | sed -n '1p;102p;$p')" = "0-0000
1-0000
1-1000" ]
}

@test "--header: each command gets it; files with other columns are refused" {
	printf 'a,b\n%s\n' "$(seq 25 | sed 's/$/,x/')" | gzip >d.csv.gz
	queue 25
	run -0 each --rows d.csv.gz --header -- sh -c 'read -r header; echo "$header"; wc -l'
	[ "$(sort <<<"$output" | uniq -c | tr -s ' ')" = " 2 10
 1 5
 3 a,b" ]
	printf 'b,a\n1,2\n' >other.csv
	run -65 each --rows d.csv.gz,other.csv -- cat
	[[ $output == *"other.csv: its header line is not that of d.csv.gz"* ]]
	seq 25 >plain
	run -78 each --rows plain --header -- cat
	[[ $output == *"plain: is read as lines, which has no header line"* ]]
}

@test "shards in any order, rows in the order of training" {
	seq 1000 >d
	queue 1000 --shuffle samples --seed 5
	run -0 each --rows d --output out -- cat
	cat out/* >got
	not cmp -s got d
	sort -n got | cmp - d
	cat "out/0-000" | sort -n | cmp - <(seq 10)
}

@test "a shard whose command fails is given out again, and held after --retries" {
	queue 50 --retries 3
	run -0 each -- sh -c '[ $SHARD != 3 ] || [ -e tried ] || { touch tried; exit 1; }'
	[[ $output == *"shard 3 (epoch 0, rows 30 to 39): exit status 1; it goes back"* ]]
	[ "$(stat_of samples-done)" = 50 ]
	kill "$SHARDD"
	ended "$SHARDD"
	rm -r journal
	queue 50 --retries 3
	run -1 each --output out --jobs 2 -- sh -c 'echo $SHARD; [ $SHARD != 3 ]'
	[ "$(grep -c 'shard 3 .*; it goes back' <<<"$output")" -eq 3 ]
	[[ $output == *"shard 3 (epoch 0, rows 30 to 39) is held: its commands failed; "* ]]
	[[ $output == *"all is done except 1 shard that is held"* ]]
	[ "$(cat out/*)" = "0
1
2
4" ]
	[ "$(ls -A out | wc -l)" -eq 4 ]
	# Bad data are not tried again; a person may.
	ask s.sock 'release id=3'
	run -1 each --output out -- sh -c 'exit 65'
	[ "$(grep -c 'shard 3 .*: exit status 65; it is held' <<<"$output")" -eq 1 ]
	ask s.sock 'release id=3'
	run -0 each --output out -- sh -c 'echo $SHARD'
	[ "$(cat out/*)" = "$(seq 0 4)" ]
}

@test "a failed command's output is never seen, a half-written one neither" {
	queue 30
	run -0 each --output out --jobs 3 -- sh -c \
		'echo begin; [ -e tried.$SHARD ] || { touch tried.$SHARD; exit 75; }; echo end'
	[ "$(cat out/*)" = "$(printf 'begin\nend\nbegin\nend\nbegin\nend')" ]
	[ "$(ls -A out | wc -l)" -eq 3 ]
}

@test "a command that can succeed on no shard ends the agent; nothing is counted" {
	queue 30
	run -78 each -- ./no-such-command
	[[ $output == *"no-such-command"* ]]
	run -127 each -- sh -c no-such-command
	[[ $output == *"any other shard would fail in the same way"* ]]
	run -64 each -- sh -c 'exit 64'
	[ "$(ask s.sock list | field state | sort -u)" = todo ]
	run -0 each -- true
}

@test "a command that reads little, or nothing, is done when it says so" {
	seq 100000 >d
	start shardd shardd -s "$T/s.sock" -j "$T/journal" -n 100000 -b 50000 -m 1
	ready s.sock
	run -0 each --rows d -- head -n 1
	[ "$output" = "1
50001" ]
	run -0 each --rows d -- true
	[ "$(stat_of samples-done)" = 100000 ]
}

@test "--timeout: a command that hangs is ended, even if it ignores SIGTERM" {
	queue 20
	run -0 each --timeout 0.3 --grace 0.1 -- sh -c \
		'[ -e tried ] && exit; touch tried; trap "" TERM; while :; do sleep 1; done'
	[[ $output == *"shard 0 (epoch 0, rows 0 to 9) ran longer than --timeout 0.3 s; it goes back to the queue"* ]]
	[ "$(stat_of samples-done)" = 20 ]
}

@test "--timeout: what ends with 0 after SIGTERM is not done" {
	queue 20
	run -0 each --timeout 0.3 --grace 1000 --output out -- sh -c '[ -e tried ] && exec echo $SHARD
		touch tried; echo half; trap "exit 0" TERM; while :; do sleep 0.05; done'
	[[ $output == *"shard 0 (epoch 0, rows 0 to 9) ran longer than --timeout 0.3 s; it goes back to the queue"* ]]
	[ "$(cat out/*)" = "$(seq 0 1)" ]
}

@test "several agents share a queue; one that is killed gives its shards back" {
	seq 1000 >d
	queue 1000 --lease 2
	start w1 agent --id w1 --shards s.sock --each --rows d --output out -- \
		sh -c 'cat; touch started; sleep 1000'
	wait_for '[ -e started ]'
	start w2 agent --id w2 --shards s.sock --each --rows d --output out -- sh -c 'cat; sleep 0.01'
	local W2=$PID
	start w3 agent --id w3 --shards s.sock --each --rows d --output out --jobs 2 -- cat
	kill -9 "${PIDS[1]}"
	ended "$W2"
	[ "$status" -eq 0 ]
	ended "$PID"
	[ "$status" -eq 0 ]
	cat out/* | cmp - d
	# What the dead one left is taken away by its next life.
	[ "$(ls -A out | grep -c '^\.')" -eq 1 ]
	run -0 agent --id w1 --shards s.sock --each --output out -- false
	[ "$(ls -A out | wc -l)" -eq 100 ]
}

@test "short commands, then a long one: what the agent took ahead of it others run meanwhile" {
	queue 500
	start long agent --id w0 --shards "$T/s.sock" --each -- sh -c \
		'echo >>done; [ $BEGIN -ne 100 ] || { touch up; while [ ! -e go ]; do sleep 0.05; done; }'
	LONG=$PID
	wait_for '[ -e up ]'
	start other agent --id w1 --shards "$T/s.sock" --each -- sh -c 'echo >>done'
	wait_for '[ "$(stat_of shards-done)" -eq 49 ]'
	touch go
	ended "$LONG"
	[ "$status" -eq 0 ]
	[ "$(wc -l <done)" -eq 50 ]
}

@test "a command that is killed: its shard is given out again" {
	queue 30
	start w0 agent --id w0 --shards s.sock --each --output out -- sh -c \
		'[ -e pid ] || { echo $$ >pid.new; mv pid.new pid; sleep 1000; }; echo $SHARD'
	wait_for '[ -e pid ]'
	kill -9 "$(cat pid)"
	ended "$PID"
	[ "$status" -eq 0 ]
	[[ $(cat w0.err) == *"signal 9 (Killed); it goes back"* ]]
	[ "$(cat out/*)" = "$(seq 0 2)" ]
}

@test "an agent that is killed takes its command with it; the next life does the rest" {
	queue 30
	start w0 agent --id w0 --shards s.sock --each --output out -- sh -c \
		'echo half; [ -e pid ] || { echo $$ >pid.new; mv pid.new pid; exec sleep 1000; }; echo $SHARD'
	wait_for '[ -e pid ]'
	kill -9 "$PID"
	wait_for "! kill -0 $(cat pid) 2>/dev/null"
	[ "$(ls out)" = "" ]
	run -0 each --output out -- sh -c 'echo half; echo $SHARD'
	[ "$(cat out/*)" = "$(printf 'half\n0\nhalf\n1\nhalf\n2')" ]
	[ "$(ls -A out | wc -l)" -eq 3 ]
}

@test "SIGTERM: what runs may finish within --grace; the rest goes back, and counts as no death" {
	queue 30 --retries 1
	start w0 agent --id w0 --shards s.sock --each --output out --jobs 2 --grace 1000 -- sh -c \
		'touch started.$SHARD; while [ ! -e finish ]; do sleep 0.05; done; echo $SHARD'
	wait_for '[ -e started.0 ] && [ -e started.1 ]'
	kill "$PID"
	touch finish
	ended "$PID"
	[ "$status" -eq 0 ]
	[ "$(cat out/*)" = "$(seq 0 1)" ]
	rm -f started.* finish
	start w1 agent --id w1 --shards s.sock --each --output out --grace 0.2 -- sh -c \
		'echo half; trap "" TERM; touch started; while :; do sleep 1; done'
	wait_for '[ -e started ]'
	kill "$PID"
	ended "$PID"
	[ "$status" -eq 0 ]
	[ "$(ls -A out | wc -l)" -eq 2 ]
	[ "$(stat_of held)" = 0 ]
	run -0 each --output out -- sh -c 'echo $SHARD'
	[ "$(cat out/*)" = "$(seq 0 2)" ]
}

@test "SIGTERM: what ends with 0 only when it is told to is not done" {
	queue 30
	start w0 agent --id w0 --shards s.sock --each --output out --grace 0.2 -- sh -c \
		'trap "exit 0" TERM; echo half; touch started; while :; do sleep 0.05; done'
	wait_for '[ -e started ]'
	kill "$PID"
	ended "$PID"
	[ "$status" -eq 0 ]
	[ "$(ls -A out)" = "" ]
	[ "$(stat_of samples-done)" = 0 ]
}

@test "SIGTERM while shardd is away: what runs finishes, and the agent ends" {
	queue 30
	start w0 agent --id w0 --shards s.sock --each --jobs 2 --grace 1000 -- sh -c \
		'touch started.$SHARD; while [ ! -e go.$SHARD ]; do sleep 0.05; done; touch ran.$SHARD'
	wait_for '[ -e started.0 ] && [ -e started.1 ]'
	local W0=$PID
	kill -9 "$SHARDD"
	ended "$SHARDD" || true
	touch go.0
	wait_for '[ -e ran.0 ]'
	kill "$W0"
	touch go.1
	ended "$W0"
	[ "$status" -eq 0 ]
	[ -e ran.1 ]
}

@test "a second SIGTERM ends the waiting" {
	queue 30
	start w0 agent --id w0 --shards s.sock --each --grace 10000 -- sh -c \
		'trap "" TERM; touch started; while :; do sleep 1; done'
	wait_for '[ -e started ]'
	# Two that come together may count as one: as many as it takes.
	wait_for 'kill "$PID" 2>/dev/null; ! kill -0 "$PID" 2>/dev/null'
	ended "$PID"
	[ "$status" -eq 0 ]
}

@test "a lease is renewed while a command runs" {
	queue 20 --lease 3
	start w0 agent --id w0 --shards s.sock --each --jobs 2 -- sh -c \
		'echo $SHARD >>ran; sleep 5'
	ended "$PID"
	[ "$status" -eq 0 ]
	[ "$(sort ran)" = "$(seq 0 1)" ]
}

@test "somebody says that the agent is dead: its commands are ended, and it starts over" {
	queue 20
	start w0 agent --id w0 --shards s.sock --each --output out -- sh -c \
		'echo $SHARD; [ -e tried ] || { touch tried; exec sleep 1000; }'
	wait_for '[ -e tried ]'
	ask s.sock 'fail worker=w0'
	ended "$PID"
	[ "$status" -eq 0 ]
	[[ $(cat w0.err) == *"w0 was fenced, because somebody took it for dead: starting over"* ]]
	[ "$(cat out/*)" = "$(seq 0 1)" ]
}

@test "shardd is killed in the middle, and comes back: nothing is done twice" {
	queue 300
	start w0 agent --id w0 --shards s.sock --each --jobs 2 -- sh -c \
		'echo $SHARD >>ran; [ $SHARD != 7 ] || { touch at7; while [ ! -e go ]; do sleep 0.05; done; }'
	local W0=$PID
	wait_for '[ -e at7 ]'
	kill -9 "$SHARDD"
	ended "$SHARDD" || true
	queue 300
	touch go
	ended "$W0"
	[ "$status" -eq 0 ]
	[ "$(sort -n ran)" = "$(seq 0 29)" ]
}

@test "files that are not the queue's, and one that changes in the middle" {
	seq 30 >d
	queue 20
	run -78 each --rows d -- cat
	[[ $output == *"--rows: the files have 30 rows, but the queue has 20"* ]]
	seq 20 >d
	run -65 each --rows d --output out -- sh -c 'cat; if [ $SHARD = 0 ]; then seq 21 >d; fi'
	[[ $output == *"d: was changed while in use"* ]]
	[ "$(stat_of samples-done)" = 10 ]
	[ "$(ls -A out | wc -l)" -eq 1 ]
	run -66 each --rows none -- cat
	run -69 agent --id w0 --shards nobody.sock --wait 0 --each -- true
}

@test "a queue that a lead settles is refused, with what to do" {
	queue 20 --settle-only
	run -78 each -- true
	[[ $output == *"start shardd without --settle-only"* ]]
}

@test "a full disk under --output: 74, nothing half, nothing counted; goes on when there is room" {
	mkdir small
	mount -t tmpfs -o size=64k none small 2>/dev/null || skip "no mount here"
	queue 30 --retries 1
	# dd says nothing of what did not fit.
	run -74 each --output small/out -- sh -c 'head -c 40000 /dev/zero 2>/dev/null; true'
	local left
	left=$(ls -A small/out | wc -l)
	local done=$(stat_of samples-done) held=$(stat_of held)
	rm -r small/out
	run -0 each --output small/out -- echo hello
	local after=$(ls small/out | wc -l)
	umount small
	[[ $output == "" ]]
	[ "$left" -eq 1 ]
	[ "$done" -eq 10 ]
	[ "$held" -eq 0 ]
	[ "$after" -eq 2 ]
}

@test "--output that can't be made" {
	queue 20
	touch file
	run -73 each --output file -- true
	[ "$(stat_of samples-done)" = 0 ]
}

@test "the example: values counted over a .gz; killed in the middle and started again, each row once" {
	awk 'BEGIN { print "n,colour"; for (i = 0; i < 100000; i++) print i % 10 "," (i % 3 ? "red" : "blue") }' |
		gzip >d.csv.gz
	local example=$PACELINE_ROOT/scripts/examples/count-values
	run -0 --separate-stderr "$example" d.csv.gz work
	[ "$(sort <<<"$output")" = "$({ printf 'n\t%s\t10000\n' 0 1 2 3 4 5 6 7 8 9
		printf 'colour\tblue\t33334\ncolour\tred\t66666\n'; } | sort)" ]
	[ "$(ls work/counts | wc -l)" -eq 10 ]
	local whole=$output
	# Some shards are lost, as if the first time had ended early.
	rm -r work
	mkdir work
	shardd -s work/queue.sock -j work/journal -n 100000 -b 10000 -m 1 3>&- &
	PIDS+=($!)
	ready work/queue.sock
	start early agent --id counter --shards work/queue.sock --each --rows d.csv.gz --header \
		--output work/counts -- sh -c '[ $SHARD != 4 ] || { touch at4; exec sleep 1000; }
			awk -F, "NR > 1 { n[\$1]++ } END { for (v in n) print \"n\\t\" v \"\\t\" n[v] }" | gzip'
	wait_for '[ -e at4 ]'
	kill -9 "$PID" "${PIDS[0]}"
	wait "${PIDS[0]}" || true
	run -0 --separate-stderr "$example" d.csv.gz work 3
	[ "$(grep -c '^n' <<<"$output")" -eq 10 ]
	[ "$(grep '^n' <<<"$output" | sort)" = "$(grep '^n' <<<"$whole" | sort)" ]
	[ "$(ls -A work/counts | wc -l)" -eq 10 ]
}
