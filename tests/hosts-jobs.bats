# Jobs on three hosts, as paceline-hosts(7) tells people to run them: over ssh, and by sbatch.
load helper
. "$BATS_TEST_DIRNAME/cluster/hosts.bash"

setup_more() {
	for program in fabricd mpirun; do
		command -v $program >/dev/null || skip "no $program here"
	done
}
teardown_more() { hosts_down; }

# On every host the data lie at the same place, on its own disk.
adult() {
	local host
	need_data adult-train.csv.gz
	for host in h0 h1 h2; do
		zcat "$DATA/adult-train.csv.gz" >"$HOSTS/$host/home/adult.csv"
		cp "$DATA/adult-test.csv" "$HOSTS/$host/home/"
	done
}
auc() { tail -n 1 "$1" | field auc; }
at_least() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a >= b) }'; }

@test "ssh: from a csv to a model of three hosts, one of them with a user in front of its name" {
	hosts_up -s
	adult
	cat >steps <<-'S'
		set -e
		cd
		trainctl init adult.csv --label income -o adult.env
		echo 'HOSTS="h0 user@h1 h2"' >>adult.env
		echo 'SYNC=allreduce' >>adult.env
		trainctl check adult.env --set MODEL=lr --set WORKERS=6
		trainctl run adult.env --set MODEL=lr --set WORKERS=6
	S
	on h0 sh steps >out 2>err || { cat out err; false; }
	tail -n 1 out
	[ "$(tail -n 1 out | field state)" = done ]
	at_least "$(auc out)" 0.885
	# wide and deep, with servers, of which one is on another host
	on h0 sh -c 'cd && trainctl run adult.env --set JOB=deep --set MODEL=wdl --set SYNC=bsp --set SERVERS=2 --run-dir "/tmp/a run"' >out 2>err ||
		{ cat err; false; }
	at_least "$(auc out)" 0.895
	for host in h1 h2; do
		not on "$host" sh -c "ps -e -o comm= | grep -E '^(worker|ps-server|fabricd|node-|orted)'"
	done
}

@test "Slurm: job.sbatch runs on what it was given; stopped before its time is up it goes on later" {
	hosts_up -S
	data 3000
	job DATA="$T/d.csv" SYNC=allreduce WORKERS=3 EPOCHS=60 MODEL=lr
	slow 800
	cp "$PACELINE_ROOT/scripts/examples/job.sbatch" .
	on h0 sbatch -N 3 -o "$T/log" job.sbatch "$T/job.env" --state-dir "$T/state"
	wait_for "grep -qs '^row ' log"
	# what Slurm does five minutes before the end
	on h0 scancel --batch --signal=USR1 1
	wait_for "grep -q '^summary .*state=stopped' log"
	rm drag/*
	# It stands in the queue again, for a time that only Slurm knows.
	wait_for "on h0 squeue -h -j 1 -o '%T %r' | grep -qx 'PENDING BeginTime'"
	on h0 scontrol update JobId=1 StartTime=now
	wait_for "[ \$(grep -c '^summary ' log) -ge 2 ]"
	[ "$(tail -n 1 log | field state)" = done ]
	[ "$(tail -n 1 log | field samples)" = 180000 ]
	# Whoever cancels it does not want it back.
	slow 800
	on h0 sbatch -N 3 -o "$T/other" job.sbatch "$T/job.env" --state-dir "$T/other.state"
	wait_for "grep -qs '^row ' other"
	on h0 scancel --batch --signal=TERM 2
	wait_for "grep -q '^summary .*state=stopped' other"
	wait_for "! on h0 squeue -h 2>/dev/null | grep -q ."
	for host in h0 h1 h2; do
		not on "$host" sh -c "ps -e -o comm= | grep -E '^(worker|ps-server|fabricd|node-|trainctl)'"
	done
}

@test "ssh: a fabricd that stands still, at the start and while sums run, is named; each sample counts once" {
	hosts_up -s
	data 2000
	printf '%s\n' JOB=still "DATA=$T/d.csv" LABEL=y DENSE=a SPARSE=b MODEL=audit SYNC=allreduce \
		BATCH=64,shard:4 WORKERS=3 EPOCHS=20 HOSTS=h0,h1,h2 >job.env
	slow 400
	start stopper on h1 sh -c 'until pkill -STOP -x fabricd; do sleep 0.02; done'
	start still on h0 trainctl run "$T/job.env" --run-dir /tmp/run --state-dir "$T/state"
	local job=$PID
	# Where a machine is slow to find it, it has come up before it is stopped.
	wait_for 'grep -qsE "fabricd on h1 (did not come up: all others waited for|stood still: nothing came from) it" state/job.log' ||
		{ cat still.err state/job.log state/logs/fabric.log; false; }
	wait_for 'on h0 trainctl status --run-dir /tmp/run 2>/dev/null | grep -q "^job .* samples-done=[1-9]"'
	# MPI uses the hosts' own network.
	grep -qx "trainctl: between hosts: 10.77.0.0/24, no other network" still.err
	wait_for "on h2 sh -c 'tr \"\\0\" \"\\n\" </proc/\$(pgrep -x fabricd)/environ' >environ"
	grep -qx OMPI_MCA_btl_tcp_if_include=10.77.0.0/24 environ
	grep -qx OMPI_MCA_oob_tcp_if_include=10.77.0.0/24 environ
	on h2 pkill -STOP -x fabricd
	wait_for 'grep -q "fabricd on h2 stood still: nothing came from it" state/job.log'
	rm drag/*
	ended "$job"
	cat still.err
	[ "$status" -eq 0 ]
	[ "$(tail -n 1 still.out | field samples)" = 40000 ]
	exact "state/checkpoints/$(basename "$(tail -n 1 still.out | field checkpoint)")" 2000 20
	not grep -q '^rollback ' state/job.log
}

# bats test_tags=long
@test "ssh: a link that is cut is named as what the ranks of a sum wait for; no rank is blamed, and nobody goes back" {
	needs_python
	hosts_up -s
	printf '%s\n' JOB=cut "TRAINER='exec python3 $BATS_TEST_DIRNAME/counting-trainer.py 4000 0.02'" SAMPLES=4000 WORKERS=3 \
		BATCH=60 EPOCHS=8 SYNC=allreduce HOSTS=h0,h1,h2 >job.env
	sed -i "s|exec python3|cd /tmp; &|" job.env
	start cut on h0 trainctl run "$T/job.env" --run-dir /tmp/run --state-dir "$T/state"
	local job=$PID
	wait_for 'on h0 trainctl status --run-dir /tmp/run 2>/dev/null | grep -q "^job .* samples-done=[1-9][0-9][0-9]"'
	hosts_link h1 down
	wait_for 'on h0 trainctl status --run-dir /tmp/run | grep "^node role=worker id=w0 " | grep -q "why=waits:%20r1%20on%20h1,%20or%20the%20way%20to%20it"'
	wait_for 'grep -q "^waits .* stands still: .*h1, or the .* to it.* has not answered" state/job.log'
	hosts_link h1 up
	ended "$job"
	cat cut.err
	[ "$status" -eq 0 ]
	[ "$(tail -n 1 cut.out | field samples)" = 32000 ]
	grep -q '^stood iteration=' state/job.log
	not grep -q '^rollback \|^event role=worker .* kind=hung' state/job.log
}
