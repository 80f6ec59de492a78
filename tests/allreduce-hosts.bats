# Replicas of several hosts, their sums over fabricd(8), their lead and workers: hosts that are
# directories of one machine. What allreduce.bats has with one host is so with three.
load helper
. "$BATS_TEST_DIRNAME/conversation.bash"

ROWS=6000

setup_more() {
	command -v fabricd >/dev/null || skip "built without Open MPI"
	command -v mpirun >/dev/null || skip "no mpirun here"
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
	# The libraries of MPI keep what they have until the process is gone.
	export ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=0
	for host in a b c; do mkdir "$host"; done
	awk -v rows="$ROWS" 'BEGIN { print "label,x"; for (i = 0; i < rows; i++) print i % 2 "," i }' >data.csv
	schema_file x ''
	model_file audit 1 0 "$ROWS"
	audit_layout "$ROWS"
}

world() {
	local host args=()
	for host in a b c; do
		args+=(-n 1 -x "PACELINE_HOST=$host" fabricd --run-dir "$T/$host" :)
	done
	unset 'args[-1]'
	start world mpirun --oversubscribe --bind-to none --mca odls_base_sigkill_timeout 0 "${args[@]}"
	WORLD=$PID
	for host in a b c; do ready "$T/$host/fabric.sock"; done
}

hosts=(a b c)
replica() { # I [OPTION]...
	local i=$1
	shift
	start "r$i" ps-server -s "$T/r$i.sock" --id "r$i" --replica "$i/3" --layout layout --hosts a,b,c \
		--fabric "$T/${hosts[i]}/fabric.sock" "$@"
	REPLICA[i]=$PID
	ready "$T/r$i.sock"
}

lead() {
	start lead ps-server -s "$T/lead.sock" --id lead --lead-only --shards "$T/shardd.sock" \
		--replicas "$T/r0.sock,$T/r1.sock,$T/r2.sock" --layout layout "$@"
	ready "$T/lead.sock"
}

job() {
	start shardd shardd -s "$T/shardd.sock" -j "$T/journal" -n "$ROWS" -b 100 -m 4 --settle-only "$@"
	ready "$T/shardd.sock"
	world
	for i in 0 1 2; do replica $i --serve; done
	lead
}

work() { # ID REPLICA [OPTION]...
	local id=$1 replica=$2
	shift 2
	start "$id" worker --id "$id" --shards "$T/shardd.sock" --lead "$T/lead.sock" \
		--replica "$T/r$replica.sock" --batch 25 --wait 120 --data data.csv \
		--schema schema --model-file audit "$@"
}

stat_of() { ask "$1" stat | sed -n 's/^stat //p' | tr ' ' '\n' | sed -n "s/^$2=//p"; }

all_done() {
	wait_for '[[ $(ask shardd.sock stat) == *" todo=0 doing=0 "*" held=0 "* ]]'
}

# Every sample is in the model exactly once, as a checkpoint has it.
each_once() {
	local head
	ask lead.sock "cut path=$T/ck" | grep -q "^ok path="
	ckpt verify ck
	ckpt export ck audit.safetensors
	head=$(od -An -t u8 -N 8 audit.safetensors)
	od -An -v -t f4 -w4 -j $((head + 8)) audit.safetensors | tr -d ' ' | sort | uniq -c >values
	[ "$(tr -s ' ' <values)" = " $ROWS 1" ]
}

@test "audit: six workers on three hosts, each sample once" {
	job
	for w in 0 1 2 3 4 5; do work w$w $((w % 3)); done
	all_done
	[ "$(stat_of lead.sock replicas)" = r0,r1,r2 ]
	each_once
	for host in a b c; do [ "$(stat_of "$host/fabric.sock" sums-done)" -gt 3 ]; done
}

@test "fabricd dies and comes back: the job goes on, each sample once" {
	job
	echo 'drag delay=0.1' >drag
	for w in 0 1 2 3 4 5; do work w$w $((w % 3)) --drag drag; done
	for n in 1 2; do
		at=$(stat_of lead.sock iteration)
		wait_for '[ "$(stat_of lead.sock iteration)" -ge $((at + 2)) ]'
		kill -9 $WORLD
		wait_for 'not pgrep -f "fabricd --run-dir $T/" >pids'
		world
	done
	rm drag
	all_done
	each_once
}

@test "a replica dies and comes back empty: it is filled, each sample once" {
	job
	echo 'drag delay=0.1' >drag
	for w in 0 1 2 3 4 5; do work w$w $((w % 3)) --drag drag; done
	for n in 1 2; do
		at=$(stat_of lead.sock iteration)
		wait_for '[ "$(stat_of lead.sock iteration)" -ge $((at + 2)) ]'
		kill -9 "${REPLICA[n]}"
		ended "${REPLICA[n]}"
		replica $n
		wait_for '[ "$(stat_of lead.sock replicas)" = r0,r1,r2 ]'
	done
	rm drag
	all_done
	each_once
}
