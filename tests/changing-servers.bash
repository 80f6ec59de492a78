# Sourced by conversations in which servers change while workers train: shardd, servers and workers by hand,
# with MODEL=audit.
ROWS=4000
csv() {
	awk -v rows="$ROWS" 'BEGIN { print "label,x1,x2,c,d"
		for (i = 0; i < rows; i++) print i % 2 "," i % 9 "," i % 5 ",c" i % 5 ",d" i % 50 }' >data.csv
	audit_layout "$ROWS"
	schema_file x1,x2 c,d
	model_file audit 2 2 "$ROWS"
}

# queue EPOCHS
queue() {
	start shardd shardd -s "$T/shardd.sock" -j "$T/journal" -n "$ROWS" -b 100 -m 4 --epochs "$1"
	ready "$T/shardd.sock"
}

# work ID SOCKET,... ARG...: a worker of these servers; its pid in PID_ID.
work() {
	start "$1" worker --id "$1" --shards "$T/shardd.sock" --servers "$2" --batch 20 \
		--wait 120 --data data.csv --schema schema --model-file audit "${@:3}"
	printf -v "PID_$1" %s "$PID"
}

iteration() { ask "$T/ps0.sock" stat | field iteration; }
came_to_unit() { [ "$(iteration)" -ge "$1" ]; }

# pace SPEED: of workers with --drag drag.
pace() { echo "drag speed=$1" >drag; }

# finished EPOCHS WORKER...: all samples are done; workers end; a checkpoint has each sample that often.
finished() {
	local epochs=$1 w pid
	shift
	rm -f drag
	wait_for "ask $T/shardd.sock stat | grep -q samples-done=$((ROWS * epochs))"
	ask "$T/ps0.sock" "cut path=$T/ck"
	ask "$T/ps0.sock" finish
	for w; do
		pid=PID_$w
		ended "${!pid}"
		[ "$status" -eq 0 ] || { cat "$w.err"; return 1; }
	done
	exact "$T/ck" "$ROWS" "$epochs"
}

# all_over: nobody of this test is there any more: until then the next one of a name would find it taken.
all_over() {
	local pid
	kill_ours "${PIDS[@]}"
	for pid in "${PIDS[@]}"; do ended "$pid"; done
	PIDS=()
}
