# Jobs on three hosts whose trainers are not of the kit (TRAINER): they meet at one address, and what
# they save travels where hosts do not see the state directory.
load helper
. "$BATS_TEST_DIRNAME/cluster/hosts.bash"

trainer=$PACELINE_ROOT/tests/fault/own-rows-trainer.py

setup_more() {
	for program in fabricd mpirun ssh python3; do
		command -v $program >/dev/null || skip "no $program here"
	done
}
teardown_more() { hosts_down; }

# counting_job [KEY=VALUE]...: three trainers that count
counting_job() {
	printf '%s\n' JOB=count "TRAINER='echo \$RANK \$LOCAL_RANK \$MASTER_ADDR \$MASTER_PORT >>$T/meet; exec python3 $trainer 600 $T/pace'" \
		SAMPLES=600 BATCH=30,shard:4 WORKERS=3 EPOCHS=4 HOSTS=h0,h1,h2 \
		CHECKPOINT=0.5 "$@" >job.env
}
status() { on h0 trainctl status --run-dir /tmp/run 2>/dev/null; }
begin_on_h0() { # NAME STATE
	start "$1" on h0 trainctl run "$T/job.env" --run-dir /tmp/run --state-dir "$2"
	SUPERVISOR=$PID
}
kill_trainer_on() { wait_for "on $1 pkill -9 -f '^[^ ]*python3[^ ]* $trainer'"; }

# one_job NAME STATE STATE_HERE: a trainer on another host dies, and it is exact.
one_job() {
	counting_job
	echo 30 >pace
	begin_on_h0 "$1" "$2"
	wait_for 'came_to 120'
	kill_trainer_on h1
	wait_for "grep -q '^repeated ' '$3/job.log'"
	wait_for 'came_to 180'
	rm pace
	ended "$SUPERVISOR"
	[ "$status" -eq 0 ] || cat "$1.err" >&2
	[ "$status" -eq 0 ]
	[ "$(last "$1.out" samples)" = 2400 ]
	path=$(last "$1.out" checkpoint)
	path=$3${path#"$2"}
	ckpt verify "$path"
	[ "$(counts "$path")" = "4 600" ]
	# all that began together met at one place, the second time at another port
	[ "$(cut -d' ' -f3 meet | sort -u)" = h0 ]
	[ "$(cut -d' ' -f2 meet | sort -u)" = 0 ]
	[ "$(head -n 3 meet | cut -d' ' -f4 | sort -u | wc -l)" -eq 1 ]
	[ "$(cut -d' ' -f4 meet | sort -u | wc -l)" -ge 2 ]
	for host in h1 h2; do
		not on "$host" sh -c "ps -e -o comm= | grep -E '^(agent|python3|fabricd|node-|orted)'"
	done
}

# bats test_tags=long
@test "a state directory that all hosts see" {
	hosts_up -s
	one_job shared "$T/state" "$T/state"
}

@test "a state directory of trainctl's host only: what trainers save travels there and back" {
	hosts_up -s
	one_job apart "$HOSTS/local/state" "$HOSTS/h0/state"
	grep -q "^part path=.*/w1/counts from=h1 " "$HOSTS/h0/state/job.log"
	# nothing is left of checkpoints on the others, but the one that they went back to, at most
	for host in h1 h2; do
		[ "$(find "$HOSTS/$host/state/checkpoints" -name counts | wc -l)" -le 3 ]
	done
}

@test "a host that dies: its trainer goes on elsewhere, exactly, and stays there when the host is back" {
	hosts_up -s
	counting_job
	echo 30 >pace
	begin_on_h0 dies "$T/state"
	wait_for 'came_to 120'
	hosts_kill h2
	wait_for "grep -q '^event role=worker id=w2 kind=ready host=h[01] ' state/job.log"
	hosts_boot h2
	wait_for "grep -q '^host name=h2 state=there ' state/job.log"
	# The fabric has it, too: who loses the lead in his last batch ends with 75.
	wait_for "sed '1,/^host name=h2 state=there /d' state/job.log | grep -q '^event role=fabric .* kind=ready '"
	rm pace
	ended "$SUPERVISOR"
	cat dies.err
	[ "$status" -eq 0 ]
	[ "$(counts "$(last dies.out checkpoint)")" = "4 600" ]
	not grep '^event role=worker id=w2 kind=kill' <(sed '1,/^host name=h2 state=there /d' state/job.log)
}

@test "what follows the loop fails on a host, and the fabric with it: all go back to the end, and run it again" {
	hosts_up -s
	cat >train <<-EOF
		cd $T
		python3 $trainer 600 pace
		[ \$RANK = 0 ] && mkdir once 2>/dev/null || exec touch well.\$RANK
		pkill -9 mpirun
		rm -f well.*
		exit 3
	EOF
	counting_job "TRAINER='exec sh $T/train'"
	begin_on_h0 behind "$T/state"
	ended "$SUPERVISOR"
	cat behind.err
	[ "$status" -eq 0 ]
	grep -q '^rollback .*what follows its loop' state/job.log
	[ "$(counts "$(last behind.out checkpoint)")" = "4 600" ]
	[ "$(echo well.*)" = "well.0 well.1 well.2" ]
}

@test "a rank whose gradients are summed goes to another host: another one has its state meanwhile; a notice outlives trainctl" {
	hosts_up -s
	printf '%s\n' JOB=sums "TRAINER='cd $T && ! [ -e bad -a \$RANK = 1 ] && exec python3 $PACELINE_ROOT/tests/counting-trainer.py 600 0.02'" SAMPLES=600 \
		BATCH=30 WORKERS=1 EPOCHS=200 SYNC=allreduce HOSTS=h0,h1,h2 CHECKPOINT=60 >job.env
	begin_on_h0 sums "$T/state"
	wait_for 'came_to 120'
	# Where the other one can't start, the only one stays.
	touch bad
	run -1 on h0 trainctl scale --hosts h1,h2 --run-dir /tmp/run
	rm bad
	in_status '^node role=worker id=w0 state=up .* host=h0 '
	grep -q '^scaled .* failed=' state/job.log
	not grep '^event role=worker id=w0 kind=kill' state/job.log
	on h0 trainctl scale --hosts h1,h2 --run-dir /tmp/run
	in_status '^node role=worker id=w0 state=up .* host=(h[12]) '
	local host=${BASH_REMATCH[1]}
	grep -q '^event role=worker id=w1 kind=left ' state/job.log
	not grep '^rollback ' state/job.log
	# One that stands still gives its state to nobody, once it has trained further than what it was given
	# itself; nobody waits for it longer than was said.
	in_status '^job .* samples-done=([0-9]+)'
	wait_for "came_to $((BASH_REMATCH[1] + 120))"
	on "$host" pkill -STOP -f "^[^ ]*python3[^ ]* $PACELINE_ROOT"
	start drain on h0 trainctl drain "$host" --within 4 --run-dir /tmp/run
	wait_for "grep -q '^host.* name=$host .* leave-by=' state/kept"
	kill -9 "$SUPERVISOR"
	ended "$SUPERVISOR"
	begin_on_h0 sums "$T/state"
	wait_for "grep -q '^warning .*w0 has not left $host in time' state/job.log"
	wait_for "grep -q '^host name=$host state=unused' state/job.log"
	wait_for "in_status '^node role=worker id=w0 state=up .* host=h'"
	not grep -q leave-by= state/kept
	on h0 trainctl stop --run-dir /tmp/run
	ended "$SUPERVISOR"
	trainctl ledger --state-dir state >ledger
	[ "$(sort -u ledger | wc -l)" -eq "$(wc -l <ledger)" ]
}

@test "all ranks die at once, and the host of the one that saves: they go on from what another host has in memory" {
	hosts_up -s
	printf '%s\n' JOB=sums "TRAINER='cd $T && exec python3 $PACELINE_ROOT/tests/counting-trainer.py 600 0.02'" SAMPLES=600 \
		BATCH=30 WORKERS=2 EPOCHS=40 SYNC=allreduce HOSTS=h1,h2 CHECKPOINT=3,memory:on >job.env
	begin_on_h0 sums "$T/state"
	wait_for 'grep -qs "^saved worker=w1 bytes=.* sum=" state/checkpoints/000002/MANIFEST'
	wait_for "in_status '^job .* checkpoint-in-memory=2 '"
	wait_for 'on h2 sh -c "[ -L /dev/shm/*/state-w1.* ]"'
	hosts_kill h1
	on h2 pkill -9 -f "^[^ ]*(agent --id|python3 [^ ]*counting-trainer)"
	ended "$SUPERVISOR"
	cat sums.err
	[ "$status" -eq 0 ]
	[ "$(grep -c '^rollback ' state/job.log)" -eq 1 ]
	grep -q 'w1 goes on from memory' state/logs/w1.log
	grep -q 'w0 goes on from memory' state/logs/w0.log
	[ "$(sort w0.counts | uniq -c | xargs)" = "600 40" ]
	[ "$(on h2 ls /dev/shm)" = "" ]
}

# bats test_tags=long
@test "what follows the loops failed before: the next trainctl waits for the trainer on another host, and both do it" {
	hosts_up -s
	cat >behind.py <<-'END'
		import os, paceline
		counts = {"batches": 0}
		batches = paceline.batches(state={"counts": counts}, collective=True, every_rank_saves=True)
		for batch in batches:
		    batch.rows
		    counts["batches"] += 1
		    batch.done(1.0)
		    if counts["batches"] == 12 and os.environ["RANK"] == "1": batches.stop("good")
		if not os.path.exists("mended"): os._exit(1)
		open("behind." + os.environ["RANK"], "w").close()
	END
	printf '%s\n' JOB=behind SAMPLES=600 WORKERS=2 BATCH=20,shard:4 EPOCHS=20 HOSTS=h0,h1 \
		"TRAINER='cd $T && PYTHONPATH=$PACELINE_ROOT/scripts/python exec python3 behind.py'" >job.env
	begin_on_h0 first "$T/state"
	ended "$SUPERVISOR"
	[ "$status" -eq 1 ]
	touch mended
	begin_on_h0 second "$T/state"
	ended "$SUPERVISOR"
	[ "$status" -eq 0 ]
	[ -e behind.0 ]
	[ -e behind.1 ]
	[ "$(last second.out samples)" = "$(last first.out samples)" ]
}

# bats test_tags=long
@test "a trainer that saves where only its own host sees it: no checkpoint, and why; the job goes on" {
	hosts_up -s
	sed "/^    def save/,/^\$/{
		s|path, data = self.asked|&; below = os.path.exists('$T/below'); path = path if below else '$HOSTS/local/own.' + os.environ['RANK']; os.makedirs(path, exist_ok=True)|
		s|\"saved path=counts\"|\"saved path=\" + (\"counts\" if below else path)|
	}" "$trainer" >own.py
	ln -s "$BATS_TEST_DIRNAME/emulated_device.py" .
	counting_job
	sed -i "s|$trainer|$T/own.py|" job.env
	echo 30 >pace
	begin_on_h0 own "$T/state"
	# on a busy machine others may have failed before it, for their own reasons
	local failed='s|.*checkpoint .*/\(0000..\) failed: .*/local/own.[12]/counts: is missing: .*; a trainer on another host has to save below the directory.*|\1|p'
	wait_for "[ -n \"\$(sed -n '$failed' state/job.log)\" ]"
	failed=$(sed -n "$failed" state/job.log | head -n 1)
	wait_for "[ ! -e state/checkpoints/$failed ]" # removed after it is said
	touch below
	rm pace
	ended "$SUPERVISOR"
	[ "$status" -eq 0 ]
	[ "$(last own.out repeated)" = 0 ]
	[ "$(counts "$(last own.out checkpoint)")" = "4 600" ]
}

@test "SYNC=allreduce: a spare on another host takes the place of a rank that died; all are exact" {
	hosts_up -s
	mkdir ranks
	printf '%s\n' JOB=spare SAMPLES=600 WORKERS=2,spares:1 BATCH=20,shard:4 EPOCHS=5 HOSTS=h0,h1,h2 SYNC=allreduce \
		"TRAINER='cd $T/ranks && exec python3 $PACELINE_ROOT/tests/counting-trainer.py 600 0.02'" >job.env
	begin_on_h0 spare "$T/state"
	wait_for 'came_to 200'
	wait_for 'in_status "^node role=spare id=s0 state=up .* section=wait .* host=h2"'
	on h1 pkill -9 -f 'agent --id w1 '
	wait_for 'in_status "^node role=worker id=s0 state=up .* host=h2"'
	ended "$SUPERVISOR"
	[ "$status" -eq 0 ]
	[ "$(grep -c '^rollback ' state/job.log)" -eq 0 ]
	[ "$(last spare.out samples)" = 3000 ]
	[ "$(ls ranks | tr '\n' ' ')" = "s0.counts w0.counts " ]
	[ "$(sort -u ranks/*)" = 5 ]
}

@test "SYNC=allreduce: nodes that were given up and live on there are ended by the next ones; nobody goes back" {
	hosts_up -s
	mkdir ranks
	printf '%s\n' JOB=stranded SAMPLES=600 WORKERS=3 BATCH=20,shard:4 EPOCHS=200 HOSTS=h0,h1,h2 SYNC=allreduce CHECKPOINT=60 \
		"TRAINER='cd $T/ranks && exec python3 $PACELINE_ROOT/tests/counting-trainer.py 600 0.02'" >job.env
	begin_on_h0 stranded "$T/state"
	all_up() { in_status "^node role=replica id=r2 state=up .* host=h2( |$)" && in_status "^node role=worker id=w2 state=up .* host=h2( |$)"; }
	wait_for 'came_to 200 && all_up'
	# the ends here are killed
	STRANDED=
	stranded h2 r2 w2
	wait_for 'not on h2 ps -o pid= -p $STRANDED && all_up'
	# the host is away until it is given up, and trainctl is killed before it has kept that, and where w2 runs now
	cp state/kept before
	STRANDED=
	hosts_link h2 down
	stranded h2 r2 w2
	wait_for 'in_status "^node role=worker id=w2 state=up .* host=h0( |$)"'
	kill -9 "$SUPERVISOR"
	ended "$SUPERVISOR"
	cp before state/kept
	begin_on_h0 again "$T/state"
	hosts_link h2 up
	wait_for 'not on h2 ps -o pid= -p $STRANDED && all_up'
	on h0 trainctl stop --run-dir /tmp/run
	ended "$SUPERVISOR"
	not grep '^event .*status=75' state/job.log
	not grep '^rollback ' state/job.log
	trainctl ledger --state-dir state >ledger
	[ "$(sort -u ledger | wc -l)" -eq "$(wc -l <ledger)" ]
}
