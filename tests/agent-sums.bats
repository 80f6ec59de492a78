#!/usr/bin/env bats
# rooms: agent work
# agent(1) --replica: trainers that count the rows they are given (counting-trainer.py), and whose gradients are
# summed; what dies, stops or is fenced takes nobody back, and each row counts exactly once an epoch.
load helper

ROWS=2000

# queue [OPTION]...: ROWS rows in shards of 160.
queue() {
	start shardd shardd -s "$T/shardd.sock" -j "$T/journal" -n $ROWS -b 20 -m 8 --settle-only "$@"
	SHARDD=$PID
	ready "$T/shardd.sock"
}

lead() {
	start lead ps-server -s "$T/lead.sock" --id lead --lead-only --replicas "$T/r0.sock" --sums \
		--shards "$T/shardd.sock" "$@"
	LEAD=$PID
	ready "$T/lead.sock"
}

# new_lead [OPTION]...: in place of one that is killed.
new_lead() {
	kill -9 "$LEAD"
	wait "$LEAD" || :
	lead "$@"
}

replica() {
	start r0 ps-server -s "$T/r0.sock" --id r0 --replica 0/1 --sums "$@"
	REPLICA=$PID
	ready "$T/r0.sock"
}

# rank ID [SECONDS [OPTION]...]: an agent with a trainer whose batch takes so long.
rank() {
	local id=$1 seconds=${2-0}
	shift; [ $# -eq 0 ] || shift
	start "$id" agent --id "$id" --shards "$T/shardd.sock" --lead "$T/lead.sock" --replica "$T/r0.sock" \
		--batch 20 "$@" -- "$BATS_TEST_DIRNAME/counting-trainer.py" $ROWS "$seconds"
	printf -v "AGENT_$id" %s "$PID"
}

# came N: the lead has come so far.
came() { [ "$(ask "$T/lead.sock" stat | field iteration)" -ge "$1" ] 2>/dev/null; }

# ends_exact EPOCHS ID...: all rows are done, the ranks end with 0, and each has all rows so often.
ends_exact() {
	local epochs=$1 id pid
	shift
	wait_for '[[ $(ask "$T/shardd.sock" stat) == *" todo=0 doing=0 "*" held=0 "* ]]'
	ask "$T/lead.sock" finish >/dev/null
	for id in "$@"; do
		pid=AGENT_$id
		ended "${!pid}"
		[ "$status" -eq 0 ] || { echo "$id: $status"; tail -n 5 "$id.err" "$id.out"; return 1; }
		[ "$(uniq -c "$id.counts" | xargs)" = "$ROWS $epochs" ] || {
			echo "$id: $(sort -n "$id.counts" | uniq -c)"; tail -n 5 "$id.err"; return 1; }
	done
}

@test "one rank alone: each row counts once an epoch" {
	queue --epochs 2
	replica
	lead
	rank w0
	ends_exact 2 w0
	grep -q '^sum 1 20$' w0.out
}

@test "three ranks: all have the same counts, also one that has no rows" {
	queue --epochs 2
	replica
	lead
	for id in w0 w1 w2; do rank $id; done
	ends_exact 2 w0 w1 w2
}

# under_way: the ranks are in the middle of their rows.
under_way() {
	wait_for "came ${1-10}"
	[[ $(ask "$T/shardd.sock" stat) != *" todo=0 "* ]]
}

# two_ranks EPOCHS: w0 and w1, in the middle of their rows.
two_ranks() {
	queue --epochs "$1"
	replica
	lead --expect 2
	rank w0 0.02
	rank w1 0.02
	under_way
}

@test "a rank is killed, and another one comes in its place: it has the state of a living one" {
	two_ranks 3
	kill -9 "$AGENT_w1"
	wait_for "came $(($(ask lead.sock stat | field iteration) + 5))"
	rank w1 0.02
	rank w2 0.02
	ends_exact 3 w0 w1 w2
	grep -q "^resume [1-9]" w1.out
	grep -q "^resume [1-9]" w2.out
}

@test "replica, lead and shardd are killed: the trainers live on, and no row is lost or counted twice" {
	queue --epochs 3
	replica
	lead --expect 2
	rank w0 0.02
	rank w1 0.02
	under_way
	kill -9 "$REPLICA"
	wait "$REPLICA" || :
	replica
	under_way $(($(ask lead.sock stat | field iteration) + 5))
	new_lead --expect 2
	wait_for '[ "$(ask lead.sock stat | field members)" = 2 ]'
	under_way $(($(ask lead.sock stat | field iteration) + 5))
	kill -9 "$SHARDD"
	wait "$SHARDD" || :
	queue --epochs 3
	ends_exact 3 w0 w1
}

@test "a rank that is fenced while it computes goes on with its state; its rows are others'" {
	queue --epochs 3
	replica
	lead
	rank w0 0.02
	echo 0.01 >pace.w1
	rank w1
	under_way 3
	[[ $(ask lead.sock "fence worker=w1 generation=2") == ok* ]]
	wait_for 'grep -q "refused: starting over" w1.err'
	rm pace.w1
	ends_exact 3 w0 w1
}

@test "a new lead has the one rank that has the state, though its trainer is between two batches" {
	queue --epochs 2
	replica
	lead
	rank w0 0.02
	under_way
	touch linger
	wait_for '[ "$(tail -n 1 w0.out | cut -d " " -f 2)" = "$(ask lead.sock stat | field iteration)" ]'
	new_lead
	wait_for '[ "$(ask lead.sock stat | field members)" = 1 ]'
	rank w1 0.02
	wait_for '[[ $(ask lead.sock members) == *"w1 "*"state=joining"* ]]'
	rm linger
	ends_exact 2 w0 w1
	grep -q "^resume [1-9]" w1.out
}

@test "the lead dies in the first iteration, and two ranks have begun, each with what it had: then one's is everybody's" {
	queue --epochs 2
	replica
	lead
	echo 7 >begins.w1
	echo 0.1 | tee pace.w0 >pace.w1
	rank w0
	wait_for '[ "$(ask lead.sock stat | field members)" = 1 ]'
	kill -STOP "$AGENT_w0"
	[[ $(ask lead.sock "fence worker=w0 generation=1") == ok* ]]
	rank w1
	wait_for '[[ $(ask lead.sock members) == *"w1 "*"state=active"* ]]'
	new_lead --expect 2
	[ "$(ask lead.sock stat | field iteration)" = 0 ]
	kill -CONT "$AGENT_w0"
	rm pace.w0 pace.w1
	ends_exact 2 w0 w1
}

@test "the last rank that has the parameters is told to go: it finishes its batch, gives them, and leaves" {
	queue --epochs 2
	replica
	lead
	rank w0 0.5
	under_way 2
	rank w1 0.02
	wait_for '[[ $(ask lead.sock members) == *"worker=w1 "* ]]'
	kill -TERM "$AGENT_w0"
	ended "$AGENT_w0"
	[ "$status" -eq 0 ]
	ends_exact 2 w1
	grep -q "^resume [1-9]" w1.out
}

@test "the same while it joins a new lead: first it is in, then it gives them, and leaves" {
	queue --epochs 2
	replica
	lead
	rank w0 0.02
	under_way
	touch linger
	wait_for '[ "$(ask lead.sock stat | field iteration)" = "$(sleep 0.3; ask lead.sock stat | field iteration)" ]'
	new_lead --expect 2
	wait_for '[[ $(ask lead.sock members) == *"worker=w0 "*"state=joining"* ]]'
	kill -TERM "$AGENT_w0"
	rank w1 0.02
	wait_for '[[ $(ask lead.sock members) == *"worker=w1 "* ]]'
	[[ $(ask lead.sock members) == *"worker=w0 "* ]]
	rm linger
	ended "$AGENT_w0"
	[ "$status" -eq 0 ]
	ends_exact 2 w1
	grep -q "^resume [1-9]" w1.out
}

@test "SIGTERM to the trainer, to it and its agent, to an agent that is done: the others go on, exactly" {
	queue --epochs 2
	replica
	lead
	rank w0 0.03
	rank w1 0.03
	rank w2 0.03
	rank w3 0.03
	wait_for '[ "$(ask lead.sock stat | field members)" = 4 ]'
	under_way
	kill -TERM "$(children_of "$AGENT_w1")"
	ended "$AGENT_w1"
	[ "$status" -eq 143 ]
	grep -q 'the trainer ended: signal 15' w1.err
	kill -TERM "$AGENT_w2" "$(children_of "$AGENT_w2")"
	ended "$AGENT_w2"
	[ "$status" -eq 0 ]
	wait_for '[[ $(ask lead.sock members) == *"worker=w3 "*"state=ended"* ]]'
	kill -TERM "$AGENT_w3"
	ended "$AGENT_w3"
	[ "$status" -eq 0 ]
	not grep "starting over" w3.err
	ends_exact 2 w0
}

@test "a rank that joins in the middle of a batch is not waited for to give its state" {
	queue --epochs 1
	replica
	lead
	rank w0 1 --batch 200
	wait_for 'came 1'
	kill -9 "$LEAD"
	wait "$LEAD" || :
	rank w1 1 --batch 200
	lead --expect 2
	wait_for 'grep -q "in the middle of a batch" w0.err lead.err'
	ends_exact 1 w0 w1
	grep -q "^resume [1-9]" w1.out
}

@test "a replica that is stopped holds up the sum, and nothing else" {
	queue --epochs 2
	replica
	lead
	rank w0 0.02
	under_way
	kill -STOP "$REPLICA"
	wait_for '[ "$(ask lead.sock stat | field iteration)" = "$(sleep 0.2; ask lead.sock stat | field iteration)" ]'
	kill -TERM "$AGENT_w0"
	ended "$AGENT_w0"
	[ "$status" -eq 0 ]
	kill -CONT "$REPLICA"
}

@test "a checkpoint is written by one rank between two iterations, and has what was summed until then" {
	two_ranks 2
	run ask lead.sock "cut path=$T/cut"
	[[ $output == ok* ]] || { echo "$output"; return 1; }
	ends_exact 2 w0 w1
	local iteration
	iteration=$(sed -n 's/.* iteration=\([0-9]*\).*/\1/p' cut/MANIFEST | head -n 1)
	grep -qx 'saves into memory' w0.out w1.out
	[ "$(stat -c %s cut/*/counts)" = $((ROWS * 8)) ]
	[ "$(od -An -v -tu8 -w8 cut/*/counts | awk '{ n += $1 } END { print n }')" = \
		"$(awk -v k="$iteration" '$1 == "resume" { n = $3 } # it may have come later than w1
			$1 == "sum" && $2 <= k { n += $3 } END { print n }' w0.out)" ]
}

@test "a machine without memory for one state more: the trainer saves into the directory" {
	queue --epochs 2
	replica
	lead
	mkdir -p node/proc
	echo 'MemAvailable:       20 kB' >node/proc/meminfo
	rank w0 0.02 --load-root "$T/node"
	under_way
	for cut in 1 2; do
		run ask lead.sock "cut path=$T/cut$cut"
		[[ $output == ok* ]] || { echo "$output"; return 1; }
	done
	ends_exact 2 w0
	[ "$(sed -n 's/^saves into //p' w0.out | xargs)" = "memory $T/cut2/w0" ]
	ckpt verify cut2
}

@test "a rank is killed in the middle of a save: that checkpoint fails, the next one is another rank's" {
	two_ranks 3
	touch dies
	run ask lead.sock "cut path=$T/cut"
	[[ $output == "err code=cut"*"left before it had saved"* ]] || { echo "$output"; return 1; }
	not test -e cut
	run ask lead.sock "cut path=$T/cut"
	[[ $output == ok* ]] || { echo "$output"; return 1; }
	[ "$(stat -c %s cut/w1/counts)" = $((ROWS * 8)) ]
	ends_exact 3 w1
}

@test "all ranks die while the queue saves for a checkpoint: none is made without what they had" {
	queue
	replica
	lead
	rank w0
	wait_for '[[ $(ask lead.sock members) == *"worker=w0 "*"state=ended"* ]]'
	kill -STOP "$SHARDD"
	start asker ask lead.sock "cut path=$T/cut"
	wait_for 'test -d cut'
	kill -9 "$AGENT_w0"
	wait_for '[[ $(ask lead.sock members) != *"worker=w0 "* ]]'
	kill -CONT "$SHARDD"
	ended "$PID"
	grep -q "^err code=cut.*none is left that could save" asker.out
	not test -e cut
}

@test "enough is said while the lead is gone: the next one hears it, and the ranks end alike" {
	queue --epochs 3
	replica
	lead
	rank w0 0.5
	rank w1 0.5
	wait_for 'came 2'
	kill -9 "$LEAD"
	wait "$LEAD" || :
	touch enough
	sleep 1 # both have computed, and said it
	lead --expect 2
	wait_for '[[ $(ask lead.sock members) == *"w0 "*"state=ended"*"w1 "*"state=ended"* ]]'
	ask lead.sock finish >/dev/null
	for pid in "$AGENT_w0" "$AGENT_w1"; do
		ended "$pid"
		[ "$status" -eq 0 ]
	done
	cmp w0.counts w1.counts
	[[ $(ask shardd.sock stat) != *" todo=0 "* ]]
}

@test "what a trainer says out of turn ends it, names the line, and harms no other rank; nobody shrinks shared memory" {
	cat >says.py <<-'P'
		import os, sys
		reads = os.fdopen(int(os.environ["PACELINE_IN"]), "rb")
		def say(words): os.write(int(os.environ["PACELINE_OUT"]), words)
		def hear():
		    while True:
		        line = reads.readline()
		        if not line or line.startswith((b"ok", b"err")): return line
		def begin():
		    say(b"sums floats=2000\n")
		    file = open(hear().split(b"path=")[1].split()[0], "r+b")
		    say(b"next empty=1\n")
		    while hear().startswith(b"ok state=wait"): say(b"next empty=1\n")
		    return file
		exec(sys.argv[1])
		hear()
	P
	queue
	replica
	lead
	echo 0.02 >pace.w0 # it trains until all of this was said
	rank w0
	wait_for 'came 3'
	says() { run -"$1" timeout 20 agent --id h --shards shardd.sock --lead lead.sock --replica r0.sock --batch 20 -- python3 says.py "$2"; }
	says 65 'begin(); say(b"next\n")'
	[[ $output == *"PACELINE_OUT:"*"'next' before 'sum': each trainer says 'sum' for each batch"* ]]
	says 65 'say(b"sums floats=2000\n"); hear(); say(b"sum\n")'
	[[ $output == *"PACELINE_OUT:2: 'sum', but no batch is under way"* ]]
	says 65 'begin(); say(b"final begin=1 count=18446744073709551615\n")'
	[[ $output == *"count=: 18446744073709551615 is not in 1..1999"* ]]
	says 78 'say(b"sums floats=1099511627776\n")'
	[[ $output == *"floats=1099511627776, but another rank has said floats=2000"* ]]
	says 1 'file = begin(); os.ftruncate(file.fileno(), 0)'
	[[ $output == *"PermissionError"* ]]
	rm pace.w0
	ends_exact 1 w0
}
