# far.bash: a job that trainctl runs on hosts h0, h1 and h2, for bats files, behind helper. No host sees another's
# files; the state is h0's own, from outside it is $STATE. MODEL=audit counts how often each row is in the model.
. "$BATS_TEST_DIRNAME/cluster/hosts.bash"

needs_hosts() {
	local program
	for program in fabricd mpirun ssh; do
		command -v $program >/dev/null || skip "no $program here"
	done
}
teardown_more() { hosts_down; }

# far_file PACE [KEY=VALUE]...: the job file; from then on who asks for a job means this one.
far_file() {
	needs_hosts
	hosts_up -s
	STATE=$HOSTS/h0/state
	awk 'BEGIN { print "y,a,b"; for (i = 0; i < 2000; i++) print i % 2 "," i "," i % 7 }' >d.csv
	for host in h0 h1 h2; do cp d.csv "$HOSTS/$host/d.csv"; done
	printf '%s\n' JOB=far "DATA=$HOSTS/local/d.csv" LABEL=y DENSE=a SPARSE=b MODEL=audit BATCH=64,shard:4 \
		WORKERS=3 HOSTS=h0,h1,h2 "${@:2}" >job.env
	slow "$1"
	status() { on h0 trainctl status --run-dir /tmp/run; }
	logged() { grep -c "$1" "$STATE/job.log" 2>/dev/null || true; }
}

# go NAME [TRAINCTL]: on h0, as $JOB_PID
go() {
	JOB_NAME=$1
	start "$1" on h0 "${2:-trainctl}" run "$T/job.env" --run-dir /tmp/run --state-dir "$HOSTS/local/state"
	JOB_PID=$PID
}

# to_end [exact_or_more]: as fast as it can, to the end; each row exactly once an epoch.
to_end() {
	local epochs
	epochs=$(sed -n 's/^EPOCHS=//p' job.env | tail -n 1)
	rm drag/*
	ended "$JOB_PID"
	cat "$JOB_NAME.err"
	[ "$status" -eq 0 ]
	[[ $(summary "$JOB_NAME.out") == *" state=done "*" samples=$((2000 * epochs)) "* ]]
	"${1:-exact}" "$STATE/checkpoints/$(basename "$(last "$JOB_NAME.out" checkpoint)")" 2000 "$epochs"
}
