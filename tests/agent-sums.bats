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
