# Jobs of trainctl whose trainer is not of the kit (TRAINER): of each kind, on one host.
load helper

trainer=$PACELINE_ROOT/tests/fault/own-rows-trainer.py
export PYTHONPATH=$PACELINE_ROOT/tests # of copies of trainers: emulated_device.py

# each_job COMMAND [KEY=VALUE]...: 1,000 samples in shards of 20
each_job() {
	local command=$1
	shift
	printf '%s\n' JOB=each "TRAINER='$command'" TRAINER_KIND=each SAMPLES=1000 BATCH=10,shard:2 \
		WORKERS=2 "$@" >job.env
}

# counting_job [KEY=VALUE]...: three trainers that count
counting_job() {
	printf '%s\n' JOB=count "TRAINER='exec python3 $trainer 600 $T/pace'" SAMPLES=600 BATCH=30,shard:4 \
		WORKERS=3 EPOCHS=4 "$@" >job.env
}

# has_trainer ID: its agent has started a trainer.
has_trainer() { [ -n "$(trainer_of "$1")" ]; }

# ---- each ----

@test "each: a command for each shard, each once an epoch" {
	each_job 'echo $EPOCH $BEGIN $LENGTH >>'"$T"'/done.$RANK' EPOCHS=2
	run_job >out
	[ "$(last out state)" = done ]
	[ "$(last out samples)" = 2000 ]
	[ "$(last out checkpoint)" = "" ]
	cat done.* | sort | uniq >once
	[ "$(cat done.* | wc -l)" -eq 100 ]
	[ "$(wc -l <once)" -eq 100 ]
	[ "$(awk '{ n += $3 } END { print n }' once)" -eq 2000 ]
}

@test "each: a finished one says so, and does nothing" {
	each_job "echo >>$T/done"
	run_job >out
	run run_job
	[ "$status" -eq 0 ]
	[[ $output == *"has been finished; --fresh starts it over"* ]]
	[ "$(wc -l <done)" -eq 50 ]
}

@test "each: what commands find in their environment" {
	cat >look <<-'E'
		env | grep -E "^(RANK|OMP|LOCAL|WORLD|MASTER|PACELINE_[DES]|PACELINE_JOB=|PACELINE_BATCH)" | LC_ALL=C sort >env.$RANK.new
		mv env.$RANK.new env.$RANK
		while [ ! -e env.0 ] || [ ! -e env.1 ]; do sleep 0.05; done
	E
	each_job "cd $T && . ./look" EPOCHS=2
	OMP_NUM_THREADS=3 run_job >out
	sed '/PORT/d; s/^\(PACELINE_STATE=\).*/\1DIR/' env.0 >rest
	diff rest - <<-'E'
		LOCAL_RANK=0
		LOCAL_WORLD_SIZE=2
		MASTER_ADDR=127.0.0.1
		OMP_NUM_THREADS=3
		PACELINE_BATCH=10
		PACELINE_EPOCHS=2
		PACELINE_JOB=each
		PACELINE_SAMPLES=1000
		PACELINE_STATE=DIR
		RANK=0
		WORLD_SIZE=2
	E
	[ "$(sed -n 's/^PACELINE_STATE=//p' env.0)" -ef run/state ]
	port=$(sed -n 's/^MASTER_PORT=//p' env.0)
	[ "$port" -ge 20000 ]
	[ "$port" -lt 32000 ]
	[ "$port" -eq "$(sed -n 's/^MASTER_PORT=//p' env.1)" ]
	# The cores are shared out, if the user has not decided.
	rm -rf run env.*
	unset OMP_NUM_THREADS
	run_job --set EPOCHS=1 >out
	threads=$(sed -n 's/^OMP_NUM_THREADS=//p' env.0)
	[ "$threads" -ge 1 ]
	[ "$threads" -le $((1 + $(nproc) / 2)) ]
}

@test "each: stopped in the middle it goes on with what is left" {
	each_job "echo >>$T/done; [ -e $T/go ] || [ \$BEGIN -lt 180 ] || exec sleep 600" TRAINER_KIND=grace:0.1
	begin first
	wait_for '[ "$(cat done 2>/dev/null | wc -l)" -eq 11 ]'
	wait_for 'came_to 180'
	trainctl stop --run-dir "$T/run"
	ended "$SUPERVISOR"
	[ "$status" -eq 75 ]
	[ "$(last first.out state)" = stopped ]
	[ "$(last first.out samples)" = 180 ]
	touch go
	run_job >out
	[ "$(last out state)" = done ]
	[ "$(last out samples)" = 1000 ]
	[ "$(wc -l <done)" -eq 52 ]
}

@test "each: what is done while it stops counts" {
	each_job "touch $T/up; while [ ! -e $T/go ]; do sleep 0.05; done; echo >>$T/done" WORKERS=1 \
		TRAINER_KIND=grace:1000
	begin first
	wait_for '[ -e up ]'
	kill "$SUPERVISOR"
	wait_for 'grep -q "^phase name=winding" run/state/job.log'
	touch go
	ended "$SUPERVISOR"
	[ "$status" -eq 143 ]
	[ "$(last first.out samples)" -eq $((20 * $(wc -l <done))) ]
}

@test "each: a command has TRAINER_KIND grace to end, however long it is" {
	each_job "touch $T/up; while [ ! -e $T/go ]; do sleep 0.05; done; echo >>$T/done" WORKERS=1 \
		TRAINER_KIND=grace:10000 HUNG=never
	start first fast trainctl run job.env --run-dir "$T/run"
	SUPERVISOR=$PID
	wait_for '[ -e up ]'
	kill "$SUPERVISOR"
	wait_for 'grep -q "^phase name=winding" run/state/job.log'
	sleep 1 # twenty for trainctl: more than any other node has
	touch go
	ended "$SUPERVISOR"
	[ "$status" -eq 143 ]
	not grep "w0 does not end after" first.err
	[ "$(wc -l <done)" -ge 1 ]
}

@test "each: an agent dies: its shard is handed out again" {
	each_job "mkdir $T/first 2>/dev/null && exec sleep 600; echo >>$T/done"
	begin first
	wait_for '[ "$(cat done 2>/dev/null | wc -l)" -eq 49 ]'
	w=w0
	has_trainer w0 || w=w1
	kill -9 "$(pid_of $w)"
	ended "$SUPERVISOR"
	[ "$status" -eq 0 ]
	[ "$(last first.out samples)" = 1000 ]
	grep -q "$w: signal 9 (Killed); starts again" first.err
	[ "$(wc -l <done)" -eq 50 ]
}

@test "each: a shard whose command keeps failing is held, the others are done" {
	each_job "[ \$BEGIN != 100 ] || exit 3; echo >>$T/done"
	run run_job
	[ "$status" -eq 1 ]
	[[ $output == *"state=done"*" samples=980 "*" held=1 "* ]]
	[[ $output == *" restarts=0 "* ]]
	[ "$(wc -l <done)" -eq 49 ]
	[[ $output == *"shards 5 are held: their commands kept failing, and they are not done"* ]]
}

@test "each: trainctl dies: the next one takes over" {
	each_job "echo >>$T/done; while [ ! -e $T/go ]; do sleep 0.05; done"
	begin first
	wait_for '[ -s done ]'
	kill -9 "$SUPERVISOR"
	begin second
	wait_for 'grep -q "nodes run already and are adopted" second.err'
	touch go
	ended "$SUPERVISOR"
	[ "$status" -eq 0 ]
	[ "$(last second.out samples)" = 1000 ]
	[ "$(wc -l <done)" -eq 50 ]
}

@test "each: a worker's command that is stopped is given up by HUNG, and runs again" {
	each_job "mkdir $T/first 2>/dev/null && kill -STOP \$\$; echo >>$T/done" HUNG=batch:5
	run_job >out 2>err
	[ "$(last out samples)" = 1000 ]
	[ "$(wc -l <done)" -ge 50 ]
	grep -q "has given no sign of life" err
}

@test "each: there is nothing to save, and nothing that actions could be for" {
	each_job "while [ ! -e $T/go ]; do sleep 0.05; done"
	begin first
	wait_for running
	run trainctl checkpoint --run-dir "$T/run"
	[ "$status" -ne 0 ]
	[[ $output == *"TRAINER_KIND=each has nothing to save"* ]]
	echo 'action kind=adjust-bs id=w0 size=5' >actions
	run trainctl apply --run-dir "$T/run" <actions
	[ "$status" -ne 0 ]
	[[ $output == *"TRAINER_KIND=each has no iterations"* ]]
	touch go
	ended "$SUPERVISOR"
	[ "$status" -eq 0 ]
}

@test "each: rows of files on standard input, and what is printed in order" {
	awk 'BEGIN { print "a,b"; for (i = 0; i < 500; i++) print i "," i * i }' >d.csv
	each_job 'cat' "DATA=$T/d.csv" SAMPLES=0 "EACH_OUTPUT=$T/out"
	run_job >o
	[ "$(last o samples)" = 500 ]
	tail -n +2 d.csv | cmp - <(cat out/*)
	# Shards of another size would stand between these.
	sed -i 's/^BATCH=.*/BATCH=7/' job.env
	run -78 --separate-stderr run_job --fresh
	[[ $stderr == *"$T/out: holds output of another job ("*"): remove it, or name another directory"* ]]
	rm -r out
	run_job --fresh >o
	tail -n +2 d.csv | cmp - <(cat out/*)
}

# ---- rows ----

@test "rows: filters get all rows, each once" {
	awk 'BEGIN { for (i = 0; i < 500; i++) print i }' >d.txt
	printf '%s\n' JOB=rows "TRAINER='exec cat >>$T/got'" TRAINER_KIND=rows "DATA=$T/d.txt" BATCH=10,shard:2 \
		WORKERS=2 >job.env
	run_job >out
	[ "$(last out state)" = done ]
	[ "$(last out samples)" = 500 ]
	sort -n got | cmp - d.txt
}

# ---- trainers with parameters ----

@test "agent: each sample once an epoch, and the last checkpoint has it" {
	needs_python
	counting_job
	run_job >out
	[ "$(last out state)" = done ]
	[ "$(last out samples)" = 2400 ]
	[ "$(last out repeated)" = 0 ]
	ckpt verify "$(last out checkpoint)"
	[ "$(counts "$(last out checkpoint)")" = "4 600" ]
	run run_job
	[ "$status" -eq 0 ]
	[[ $output == *"has been finished"* ]]
}

@test "agent: stopped and started again it is exact" {
	needs_python
	counting_job
	echo 60 >pace
	begin first
	wait_for 'came_to 100'
	trainctl stop --run-dir "$T/run"
	ended "$SUPERVISOR"
	[ "$status" -eq 75 ]
	[ "$(last first.out state)" = stopped ]
	rm pace
	run_job >out
	[ "$(last out state)" = done ]
	[ "$(counts "$(last out checkpoint)")" = "4 600" ]
	grep -q '^resume ' run/state/logs/w0.log
}

@test "agent: a trainer dies: all go back, exactly, and say how much comes again" {
	needs_python
	counting_job CHECKPOINT=0.2
	echo 60 >pace
	begin first
	wait_for 'came_to 60'
	wait_for '[ -e run/state/checkpoints/000003/MANIFEST ]'
	kill -9 $(trainer_of w1)
	wait_for 'grep -q "^repeated " run/state/job.log'
	wait_for 'has_trainer w1'
	rm pace
	ended "$SUPERVISOR"
	[ "$status" -eq 0 ]
	[ "$(last first.out samples)" = 2400 ]
	[ "$(counts "$(last first.out checkpoint)")" = "4 600" ]
	[ "$(last first.out repeated)" = "$(grep '^repeated ' run/state/job.log | field samples | awk '{ n += $1 } END { print n }')" ]
	grep -q 'the trainer w1 ended: all trainers go back to the last checkpoint' first.err
	trainctl report --run-dir "$T/run" >said
	[ "$(grep '^report ' said | field repeated)" = "$(last first.out repeated)" ]
}

@test "agent: another port after each rollback, the same for all" {
	needs_python
	counting_job
	sed -i "s|exec|echo \$MASTER_PORT \$RANK >>$T/ports; exec|" job.env
	echo 60 >pace
	begin first
	wait_for 'came_to 60'
	kill -9 "$(pid_of w2)"
	wait_for '[ "$(wc -l <ports)" -ge 6 ]'
	rm pace
	ended "$SUPERVISOR"
	[ "$status" -eq 0 ]
	[ "$(head -n 3 ports | cut -d' ' -f1 | sort -u | wc -l)" -eq 1 ]
	[ "$(tail -n 3 ports | cut -d' ' -f1 | sort -u | wc -l)" -eq 1 ]
	[ "$(cut -d' ' -f1 ports | sort -u | wc -l)" -eq 2 ]
}

@test "agent: a trainer and an agent that stand still are given up" {
	needs_python
	counting_job HUNG=batch:2,exchange:2,checkpoint:2 CHECKPOINT=0.3
	echo 20 >pace
	begin first
	wait_for 'came_to 60'
	kill -STOP $(trainer_of w0)
	wait_for 'grep -q "^repeated " run/state/job.log'
	wait_for 'has_trainer w0 && has_trainer w1 && came_to 90'
	kill -STOP "$(pid_of w1)"
	wait_for '[ "$(grep -c "^repeated " run/state/job.log)" -ge 2 ]'
	rm pace
	ended "$SUPERVISOR"
	[ "$status" -eq 0 ]
	[ "$(counts "$(last first.out checkpoint)")" = "4 600" ]
	grep -q 'w0 has given no sign of life' first.err
	grep -q 'w1 has given no sign of life' first.err
}

@test "agent: who writes a checkpoint for long, and who waits for it, is not given up" {
	needs_python
	# Rank 0 writes until it may end; the others have written, and wait for it in their next batch.
	cat >patch <<-'P'
		while os.path.exists("hold"): open("saving." + os.environ["RANK"], "w"); time.sleep(0.05)
	P
	awk -v patch="$(cat patch)" '
		/^    def save/ { saves = 1 }
		saves && /path, data = / { print "        if os.environ[\"RANK\"] == \"0\":"; print "            " patch }
		{ print }
		saves && /self.obey\(records\)/ { print "        " patch; saves = 0 }' "$trainer" >slow.py
	counting_job HUNG=batch:3,exchange:3 CHECKPOINT=0.2
	sed -i "s|python3 $trainer|cd $T; exec python3 $T/slow.py|; s|exec cd|cd|" job.env
	echo 60 >pace
	touch hold
	begin first
	wait_for '[ -e saving.0 ] && [ -e saving.1 ] && [ -e saving.2 ]'
	sleep 7 # more than the longest batch may take
	rm pace hold
	ended "$SUPERVISOR"
	[ "$status" -eq 0 ]
	not grep "no sign of life" first.err
	[ "$(last first.out repeated)" = 0 ]
	[ "$(counts "$(last first.out checkpoint)")" = "4 600" ]
}

@test "agent: a trainctl that was killed before it had started all, or any: they go back, exactly" {
	needs_python
	for missing in w2 'w0 w1 w2'; do
		rm -rf run
		counting_job CHECKPOINT=end
		echo 60 >pace
		begin first
		wait_for 'came_to 60'
		kill -9 "$SUPERVISOR"
		for w in $missing; do
			read -r parent agent < <(record_pids run/state/nodes/$w.0)
			kill -9 "$agent"
			wait_for "[ ! -e /proc/$parent ]"
			rm run/state/nodes/$w.0
		done
		rm pace
		begin second
		ended "$SUPERVISOR"
		[ "$status" -eq 0 ]
		[ "$(counts "$(last second.out checkpoint)")" = "4 600" ]
		[ "$(last second.out repeated)" -gt 0 ]
	done
}

@test "agent: what is trained again is counted, if not written down: the rollback waits" {
	needs_python
	counting_job CHECKPOINT=end
	echo 60 >pace
	begin first
	wait_for 'came_to 60'
	rm -f run/state/kept
	mkdir -p run/state/kept/in-the-way
	kill -9 $(trainer_of w1)
	wait_for 'grep -q "the intent to roll back can.t be written yet" first.err'
	sleep 3 # it is tried each second
	in_status '^job .* state=rollback .* why=.*/kept%20can.t%20be%20written.* incarnation=1 '
	kill -9 "$SUPERVISOR"
	rm -r run/state/kept
	rm pace
	begin second
	ended "$SUPERVISOR"
	[ "$status" -eq 0 ]
	[ "$(counts "$(last second.out checkpoint)")" = "4 600" ]
	[ "$(last second.out repeated)" -ge 60 ]
}

@test "agent: stopped while one has never asked: it is given up, and all end at the last checkpoint" {
	needs_python
	counting_job CHECKPOINT=end
	sed -i "s|exec|touch $T/up.\$RANK; [ \$RANK != 0 ] \|\| exec sleep 600; exec|" job.env
	begin first
	wait_for '[ -e up.0 ] && [ -e up.1 ] && [ -e up.2 ]'
	kill -9 "$SUPERVISOR"
	begin second --set HUNG=start:3
	wait_for 'grep -q "nodes run already and are adopted" second.err'
	trainctl stop --run-dir "$T/run"
	ended "$SUPERVISOR"
	[ "$status" -eq 75 ]
	[ "$(last second.out state)" = stopped ]
	[ "$(last second.out samples)" = 0 ]
	[ "$(last second.out checkpoint)" = "$T/run/state/checkpoints/000001" ]
}

@test "agent: stopped before any trainer has asked it ends, and goes on later" {
	needs_python
	counting_job TRAINER_KIND=grace:0.1
	sed -i "s|exec|touch $T/up.\$RANK; [ -e $T/go ] \|\| exec sleep 600; exec|" job.env
	begin none
	wait_for '[ -e up.0 ] && [ -e up.1 ] && [ -e up.2 ]'
	trainctl stop --run-dir "$T/run"
	ended "$SUPERVISOR"
	[ "$status" -eq 75 ]
	[ "$(last none.out samples)" = 0 ]
	touch go
	run_job >out
	[ "$(last out state)" = done ]
	[ "$(counts "$(last out checkpoint)")" = "4 600" ]
}

@test "agent: an agent is killed: what its shell has started ends, too, before another one begins" {
	needs_python
	counting_job
	sed -i "s|exec python3|echo \\$\\$ >$T/shell.\$RANK; python3|; s|pace'|pace; true'|" job.env
	echo 60 >pace
	begin first
	wait_for 'came_to 30'
	children=$(children_of "$(cat shell.1)")
	[ -n "$children" ]
	kill -9 "$(pid_of w1)"
	wait_for 'grep -q "^event role=worker id=w1 kind=exit" run/state/job.log'
	for child in $children; do
		lives=$(sed -n 's/^State:[[:space:]]*//p' "/proc/$child/status" 2>/dev/null) || true
		[[ $lives != [RSD]* ]]
	done
	rm pace
	ended "$SUPERVISOR"
	[ "$status" -eq 0 ]
	[ "$(counts "$(last first.out checkpoint)")" = "4 600" ]
}

@test "agent: what a trainer does after the end fails: the status, and run again it does that again" {
	needs_python
	counting_job WORKERS=1
	sed -i "s|exec python3|python3|; s|pace'|pace; [ -e mended ] \|\| exit 3'|" job.env
	run run_job
	[ "$status" -eq 3 ]
	[[ $output == *"exit status 3 after all was trained; the checkpoint is complete" ]] ||
		[[ $output == *"exit status 3 after all was trained; the checkpoint is complete"$'\n'* ]]
	[[ $output == *"state=done"*" exit=3 "*" after-loop=failed" ]]
	touch mended
	run -0 run_job
	[[ $output == *" state=done "*" samples=2400 "*" repeated=0 exit=0 "* ]]
	run -0 run_job
	[[ $output == *"has been finished"* ]]
}

@test "agent: a job that only ever goes back ends, and says so" {
	needs_python
	counting_job RESTARTS=rollbacks:2 CHECKPOINT=end
	# Each time another one: none of them has died three times itself.
	sed -i "s| 600 | \$dies 600 |; s|exec|echo >>$T/begun.\$RANK; \
		[ \$((\$(wc -l <$T/begun.\$RANK) % 3)) != \$RANK ] \|\| dies=--dies; exec|" job.env
	run run_job
	[ "$status" -ne 0 ]
	[[ $output == *"rollback 3 in a row without a checkpoint that goes further (RESTARTS rollbacks)"* ]]
	[[ $output == *"state=failed"* ]]
}

# stopping_job [KEY=VALUE]...: two ranks; rank 1 finds the model trained enough when it has 12 batches.
stopping_job() {
	cat >stopping.py <<-'END'
		import os, paceline, sys, time
		rank, counts = os.environ["RANK"], {"batches": 0}
		batches = paceline.batches(state={"counts": counts}, collective=True, every_rank_saves=True)
		for batch in batches:
		    batch.rows
		    assert batch.samples_done == 20 * counts["batches"] and batch.epoch == batch.samples_done // 600, batch.samples_done
		    counts["batches"] += 1
		    batch.done(1.0)
		    if counts["batches"] == 12 and rank == "1" and len(sys.argv) > 1: batches.stop(sys.argv[1])
		    if len(sys.argv) == 1: time.sleep(0.03)
		open("behind.%s.%d" % (rank, os.getpid()), "w").write(str(counts["batches"]))
	END
	mkdir -p behind
	printf '%s\n' JOB=stops SAMPLES=600 WORKERS=2 BATCH=20,shard:4 EPOCHS=20 \
		"TRAINER='cd $T/behind && exec python3 $T/stopping.py good'" "$@" >job.env
	export PYTHONPATH=$PACELINE_ROOT/scripts/python
}

@test "agent: a trainer says enough: the loops of all end, with a checkpoint, and the job is done" {
	needs_python
	stopping_job
	run_job >out 2>err
	grep -q 'w1 has trained enough, good: a last checkpoint, then the end' err
	[ "$(last out state)" = done ]
	[ "$(last out ended)" = enough ]
	[ "$(ls behind | wc -l)" -eq 2 ]
	[ "$(cat behind/behind.0.*)" = "$(cat behind/behind.1.*)" ] # what has begun is trained by all
	[ "$(last out samples)" -eq $((20 * $(cat behind/behind.0.*))) ]
	ckpt verify "$(last out checkpoint)"
	python3 - "$(last out checkpoint)" "$(cat behind/behind.0.*)" <<-'END'
		import pickle, sys
		for rank in "w0", "w1":
		    state = pickle.load(open("%s/%s/state.pickle" % (sys.argv[1], rank), "rb"))
		    assert state["counts"]["batches"] == int(sys.argv[2]), state
	END
	run -0 run_job
	[[ $output == *"has been finished"*"its trainer said that it has trained enough"* ]]
	[ "$(ls behind | wc -l)" -eq 2 ]
}

@test "agent: summed gradients: a trainer says enough, and all end with the same state" {
	needs_python
	sed '/samples = int/a\        if NAME == "w1" and int(answer["iteration"]) >= 12: ask("enough why=good")' \
		"$BATS_TEST_DIRNAME/counting-trainer.py" >enough.py
	mkdir behind
	printf '%s\n' JOB=stops SAMPLES=600 WORKERS=3 BATCH=20,shard:4 EPOCHS=200 SYNC=allreduce \
		"TRAINER='cd $T/behind && exec python3 $T/enough.py 600 0.01'" >job.env
	run_job >out 2>err
	[ "$(last out ended)" = enough ]
	[ "$(last out restarts)" -eq 0 ]
	cmp behind/w0.counts behind/w1.counts
	cmp behind/w0.counts behind/w2.counts
	[ "$(last out samples)" -eq "$(awk '{ n += $1 } END { print n }' behind/w0.counts)" ]
	cmp <(od -An -v -w8 -t u8 "$(last out checkpoint)"/w*/counts | tr -d ' ') behind/w0.counts
}

# summing_job [KEY=VALUE]...: three ranks of counting-trainer.py.
summing_job() {
	needs_python
	mkdir -p behind
	printf '%s\n' JOB=sums SAMPLES=1200 WORKERS=3 BATCH=24,shard:4 EPOCHS=2 SYNC=allreduce \
		"TRAINER='cd $T/behind && exec python3 $BATS_TEST_DIRNAME/counting-trainer.py 1200 0.02'" "$@" >job.env
}
# kill_ranks: all of them and their agents, at once, behind the third checkpoint.
kill_ranks() {
	wait_for '[ -e run/state/checkpoints/000003/MANIFEST ]'
	local pid pids
	for pid in $(pid_of w0) $(pid_of w1) $(pid_of w2); do
		pids+=" $pid $(children_of $pid)"
	done
	kill -9 $pids
}
# whole: all ranks have each row twice, and so says the ledger.
whole() {
	local id
	[ "$(last out state)" = done ]
	for id in w0 w1 w2; do [ "$(sort behind/$id.counts | uniq -c | xargs)" = "1200 2" ]; done
	[ "$(trainctl ledger --state-dir run/state | grep -c ' begin=0 length=1200$')" -eq 2 ]
}

@test "agent: summed gradients: all ranks die, and begin with the last checkpoint, which is in memory" {
	summing_job CHECKPOINT=60,memory:$T/memory
	run_job >out 2>err &
	local job=$!
	# When asked for: so none is half in memory when the ranks are killed.
	until [ -e run/state/checkpoints/000003/MANIFEST ]; do trainctl checkpoint --run-dir run || sleep 0.1; done
	kill_ranks
	wait $job
	whole
	cat err
	grep -q 'the trainer w[012] ended: all trainers go back to the last checkpoint' err
	# Who comes later may have the state from one that is there.
	grep -q 'w[012] goes on from memory' run/state/logs/w?.log
	[ "$(ls memory)" = "" ]
}

@test "agent: summed gradients: the place for memory is gone: that is told, and all begin with the disk's" {
	summing_job CHECKPOINT=0.3,memory:$T/memory
	run_job >out 2>err &
	local job=$!
	wait_for '[ -e run/state/checkpoints/000002/MANIFEST ] && [ -d memory ]'
	# Who saves just then makes the directory again.
	until [ -f memory ]; do rm -rf memory && touch memory; done
	kill_ranks
	wait $job
	whole
	grep -q 'the checkpoint is on the disk, but not in memory: ' run/state/logs/w?.log
	not grep -q 'from memory' run/state/logs/w?.log
}

@test "agent: a rank dies after it was enough: all go back and train on, until it is enough again" {
	needs_python
	stopping_job CHECKPOINT=end
	# rank 0 dies, once, when it is to save: after rank 1 has said enough
	sed -i "s/state={/save=write if rank == '0' else None, resume=take if rank == '0' else None, state=None if rank == '0' else {/" stopping.py
	sed -i '2a\
def write(path):\
    if counts["batches"] and not os.path.exists("died"): open("died", "w"); os.kill(os.getpid(), 9)\
    open(path + "/counts", "w").write(str(counts["batches"]))\
def take(path): counts["batches"] = int(open(path + "/counts").read())' stopping.py
	run_job >out 2>err
	[ -e behind/died ]
	[ "$(grep -c 'w1 has trained enough' err)" -eq 2 ]
	[ "$(last out ended)" = enough ]
	[ "$(cat behind/behind.0.*)" = "$(cat behind/behind.1.*)" ]
	[ "$(last out samples)" -eq $((20 * $(cat behind/behind.0.*))) ]
}

@test "agent: ranks fail behind their loops: what follows them runs again in all, with the last state" {
	needs_python
	stopping_job
	cat >>stopping.py <<-'END'
		if not os.path.exists("failed" + rank):
		    open("failed" + rank, "w").close()
		    if rank == "1": sys.exit(1)
		    os.kill(os.getpid(), 9)
	END
	run_job >out 2>err
	grep -q '^trainctl: w0 has ended with signal 9 .* after all was trained; .*, and what follows the loop runs again in all$' err
	[ "$(last out state)" = done ]
	[ "$(last out ended)" = enough ]
	[ "$(last out exit)" = 0 ]
	[ "$(last out repeated)" = 0 ]
	[ "$(ls behind/behind.* | wc -l)" -eq 4 ]
	[ "$(grep -h . behind/behind.* | sort -u | wc -l)" -eq 1 ] # nothing was trained further
	[ "$(last out samples)" -eq $((20 * $(grep -hm 1 . behind/behind.0.* | head -n 1))) ]
}

@test "agent: summed gradients: a rank that always fails behind its loop; run again, nothing is trained" {
	needs_python
	sed '/samples = int/a\        if NAME == "w1" and int(answer["iteration"]) >= 12: ask("enough why=good")' \
		"$BATS_TEST_DIRNAME/counting-trainer.py" >fails.py
	echo 'os.path.exists("mended") or os.rename(NAME + ".counts", NAME + ".first") or NAME == "w2" and sys.exit(1)' >>fails.py
	mkdir behind
	printf '%s\n' JOB=stops SAMPLES=600 WORKERS=3 BATCH=20,shard:4 EPOCHS=200 SYNC=allreduce \
		"TRAINER='cd $T/behind && exec python3 $T/fails.py 600 0.01'" >job.env
	run -1 run_job
	[ "$(grep -c 'w2 has ended with exit status 1 after all was trained' <<<"$output")" -eq 3 ]
	[ "$(grep -c 'runs again in all$' <<<"$output")" -eq 2 ]
	touch behind/mended
	run_job >out
	[ "$(last out ended)" = enough ]
	local w
	for w in w0 w1 w2; do cmp behind/w0.counts behind/$w.counts; done
	cmp behind/w0.counts behind/w0.first
	[ "$(last out samples)" -eq "$(awk '{ n += $1 } END { print n }' behind/w0.counts)" ]
}

@test "agent: what a trainer reports is in the log, top and metrics; the best one is kept" {
	needs_python
	cat >reports.py <<-'END'
		import os, paceline, time
		seen = {"batches": 0}
		batches = paceline.batches(state={"seen": seen})
		for batch in batches:
		    batch.rows
		    seen["batches"] += 1
		    batch.done(1.0)
		    if seen["batches"] % 10 == 0:
		        loss = abs(seen["batches"] - 20) + 0.5
		        best = batches.save(seen, "best.pickle", min=loss)
		        batches.report(val_loss=loss, best_val_loss=best, lost=float("nan"))
		while not os.path.exists("go"): time.sleep(0.05)
	END
	printf '%s\n' JOB=reports SAMPLES=400 WORKERS=1 BATCH=10 METRICS=unix:metrics.sock \
		"TRAINER='cd $T && exec python3 $T/reports.py'" >job.env
	export PYTHONPATH=$PACELINE_ROOT/scripts/python
	begin reports
	wait_for '[ "$(logged "^report worker=w0 ")" = 4 ]'
	grep -q '^report worker=w0 iteration=[0-9]* values=val_loss:20.5,best_val_loss:0.5 ' run/state/job.log
	run -0 trainctl status --run-dir "$T/run"
	[[ $output == *" reported=val_loss%2020.5,%20best_val_loss%200.5 reported-age="* ]]
	printf "GET /metrics HTTP/1.0\r\n\r\n" | socat -t 300 - UNIX-CONNECT:metrics.sock >page
	grep -q '^paceline_job_reported{.*name="best_val_loss"} 0.5$' page
	touch go
	ended "$SUPERVISOR"
	[ "$status" -eq 0 ]
	ckpt list run/state/checkpoints >list
	grep -q '^checkpoint .* reported=val_loss:20.5,best_val_loss:0.5$' list
	ckpt show "$(ckpt latest run/state/checkpoints)" | grep -q '^checkpoint .* reported=val_loss:20.5,'
	trainctl report --run-dir "$T/run" >report
	grep -Eq '^value name=val_loss last=20.5 least=0.5 least-at=(20|21) most=20.5 most-at=(40|41)$' report
	trainctl report --text --run-dir "$T/run" | grep -q 'val_loss: 20.5 at last, 0.5 (iteration 2[01]) to 20.5 (iteration 4[01])'
	[ "$(grep -c 'lost is nan, and not reported' run/state/logs/w0.log)" -eq 4 ]
	python3 - <<-'END'
		import pickle
		assert pickle.load(open("best.pickle", "rb")) == {"batches": 20}
	END
}

@test "agent: MAX_TIME ends the loops of trainers as a trainer's word does" {
	needs_python
	stopping_job MAX_TIME=1
	sed -i "s/ good'/'/" job.env
	run_job >out 2>err
	[ "$(last out ended)" = max-time ]
	[ "$(cat behind/behind.0.*)" = "$(cat behind/behind.1.*)" ]
}

@test "agent: a loss that is no number, or none: rows have none, and the end says since when" {
	needs_python
	cat >lost.py <<-'END'
		import paceline, sys, time
		for batch in paceline.batches(state={}):
		    batch.rows
		    time.sleep(1 if batch.iteration < 4 else 0) # so that each of them is seen
		    batch.loss = 0.5 if batch.iteration < int(sys.argv[1]) else float("nan")
	END
	counting_job "TRAINER='PYTHONPATH=$PACELINE_ROOT/scripts/python exec python3 $T/lost.py 0'" WORKERS=1
	run_job >out 2>err
	[ "$(last out state)" = done ]
	grep -q '^row .* loss= ' out
	not grep -q '^row .* loss=[^ ]' out
	grep -q 'no loss at all: the trainers reported none, or none that is a number' err
	rm -rf run
	sed -i 's/lost.py 0/lost.py 2/' job.env
	run_job >out 2>err
	[ "$(last out state)" = done ]
	# On a busy machine the last row with a loss may be of an earlier iteration.
	local last
	last=$(sed -n 's/^row iteration=\([0-9]*\) .* loss=0.5 .*/\1/p' out | tail -n 1)
	[ "$last" -le 2 ]
	grep -q "no loss since iteration $last: the trainers reported none" err
	rm -rf run
	sed -i 's/lost.py 2/lost.py 999/' job.env
	run_job >out 2>err
	[ "$(last out state)" = done ]
	not grep 'no loss' err
}

# ---- mistakes ----

@test "each: names of more files than a variable may hold" {
	needs_python
	local long="$T/$(printf '%0200d' 0)" i
	mkdir "$long"
	cd "$long"
	for ((i = 0; i < 800; i++)); do echo 1 >"f$i"; done
	cd "$T"
	cat >names.py <<-'END'
		import os, shlex
		names, i = [], 1
		while i == 1 or "PACELINE_DATA_%d" % i in os.environ:
		    names += shlex.split(os.environ["PACELINE_DATA" + ("_%d" % i if i > 1 else "")])
		    i += 1
		print(len(set(names)), names[0][-2:], names[-1][-4:], os.environ["BEGIN"], os.environ["LENGTH"])
	END
	each_job "python3 $T/names.py >>$T/names" BATCH=800 FORMAT=lines "DATA='$(printf "$long/f%d " {0..799})'"
	sed -i '/^SAMPLES/d' job.env
	run_job >out
	[ "$(cat names)" = "800 f0 f799 0 800" ]
	run -0 run_job
	[[ $output == *"has been finished"* ]] # its own job file is read again
}

@test "a command that is not there: 127, with its words, at once" {
	each_job no-such-program
	run -127 run_job
	[[ $output == *"no-such-program: not found"* ]]
	[[ $output == *" restarts=0 "* ]]
	rm -rf run
	run -127 run_job --set TRAINER_KIND=loop
	[[ $output == *"no-such-program: not found"* ]]
	[[ $output == *" restarts=0 "* ]]
}

@test "a trainer that ends at once, and one that never asks" {
	each_job 'exit 3' WORKERS=1
	run run_job --set TRAINER_KIND=loop
	[ "$status" -eq 3 ]
	[[ $output == *"w0: exit status 3, which would happen again"* ]]
	rm -rf run
	run run_job --set TRAINER_KIND=loop --set WORKERS=2
	[ "$status" -eq 3 ]
	rm -rf run
	run run_job --set TRAINER_KIND=loop --set 'TRAINER=exec sleep 600' --set HUNG=start:1 --set RESTARTS=1
	[ "$status" -eq 137 ]
	[[ $output == *"has given no sign of life"*"section start"* ]]
}

@test "other keys than the state was made with" {
	each_job true
	run_job >out
	run run_job --set TRAINER_KIND=loop
	[ "$status" -eq 78 ]
	[[ $output == *"holds the state of this job with another TRAINER_KIND (each, not loop)"* ]]
	run run_job --set SAMPLES=2000
	[ "$status" -eq 78 ]
	[[ $output == *"another SAMPLES (1000, not 2000)"* ]]
	run run_job --set TRAINER= --set SAMPLES=0 --set DATA=job.env --set FORMAT=libsvm
	[ "$status" -eq 78 ]
	[[ $output == *"TRAINER"* ]]
	run run_job --set 'TRAINER=exec true'
	[ "$status" -eq 0 ]
}

@test "check says what it would do, and makes nothing" {
	each_job 'true'
	run trainctl check job.env --run-dir "$T/run"
	[ "$status" -eq 0 ]
	[[ $output == "check job=each start=begin rows=1000 "*" trainer=true trainer-kind=each workers=2 servers=0 "* ]]
	[ ! -e run ]
}

# ---- actions and solutions ----

# paced_job [KEY=VALUE]...: a counting job that goes on until `rm pace`, and is under way
paced_job() {
	counting_job EPOCHS=20 "$@"
	echo 400 >pace
	begin first
	wait_for 'came_to 100'
}
finished_exactly() { # TIMES
	rm -f pace
	ended "$SUPERVISOR"
	[ "$status" -eq 0 ] || cat first.err >&2
	[ "$status" -eq 0 ]
	[ "$(counts "$(last first.out checkpoint)")" = "$1 600" ]
}

@test "agent: kill-restart saves first, and it is exact" {
	needs_python
	paced_job CHECKPOINT=end
	trainctl kill-restart w1 --run-dir "$T/run" >said
	grep -q '^ok id=w1 seconds=' said
	grep -q '^restart .*id=w1' run/state/job.log
	[ "$(grep -c '^repeated ' run/state/job.log)" -eq 1 ]
	[ "$(grep '^repeated ' run/state/job.log | field checkpoint)" != "$T/run/state/checkpoints/000001" ]
	finished_exactly 20
}

@test "agent: kill-restart --force of a trainer that stands still" {
	needs_python
	paced_job CHECKPOINT=0.3
	wait_for '[ -e run/state/checkpoints/000003/MANIFEST ]'
	kill -STOP $(trainer_of w1)
	trainctl kill-restart w1 --force --run-dir "$T/run" >said
	grep -q '^ok id=w1 seconds=' said
	finished_exactly 20
}

@test "agent: not scaled while it runs; stopped, and run with more and with fewer trainers" {
	needs_python
	paced_job
	echo 40 >pace
	run trainctl scale --workers 4 --run-dir "$T/run"
	[ "$status" -eq 1 ]
	[[ $output == *"trainers: TRAINER_KIND=loop: trainers have parameters"*"WORKERS=4"* ]]
	for workers in 4 2; do
		[ "$workers" = 4 ] || wait_for "grep -q '^resume .*/w0/counts ' run/state/logs/w3.log"
		trainctl stop --run-dir "$T/run" >/dev/null
		ended "$SUPERVISOR"
		begin "with$workers" --set "WORKERS=$workers"
		wait_for '[ "$(status | grep -c "^node role=worker .* state=up ")" = '"$workers"' ]'
	done
	rm pace
	ended "$SUPERVISOR"
	[ "$status" -eq 0 ]
	[ "$(last with2.out state)" = done ]
	[ "$(last with2.out samples)" = 12000 ]
}

@test "agent: stopped, and run with another BATCH and number of ranks: from there on, and a schedule ends as planned" {
	needs_python
	cat >steps.py <<-'END'
		import os, paceline, time
		done = {"steps": 0}
		batches = paceline.batches(state={"done": done}, collective=True)
		for batch in batches:
		    batch.rows
		    done["steps"] += batch.steps
		    print("batch", batch.size, flush=True)
		    batch.done(1.0)
		    time.sleep(0.02)
		assert done["steps"] == batches.steps == 80, (done, batches.steps)
	END
	printf '%s\n' JOB=steps SAMPLES=600 WORKERS=2 BATCH=30,shard:4 EPOCHS=4 CHECKPOINT=0.1 \
		"TRAINER='exec python3 $T/steps.py'" >job.env
	export PYTHONPATH=$PACELINE_ROOT/scripts/python
	begin first
	wait_for 'grep -q "^batch 15" run/state/logs/w1.log'
	printf '%s\n' 'action kind=adjust-bs id=w0 size=10' 'action kind=adjust-bs id=w1 size=20' |
		trainctl apply --run-dir "$T/run" >said
	wait_for 'grep -q "^batch 20" run/state/logs/w1.log'
	trainctl stop --run-dir "$T/run" >/dev/null
	ended "$SUPERVISOR"
	[ "$(last first.out state)" = stopped ]
	local small=$(last first.out samples)
	run -78 run_job --set BATCH=30,shard:5
	[[ $output == *"another BATCH shard (4, not 5)"* ]]
	run_job --set BATCH=21 --set WORKERS=3 >out
	[ "$(last out state)" = done ]
	[ "$(last out samples)" -eq 2400 ]
	[ "$(last out shards)" -eq 20 ]
	[ "$(grep -c '^batch 7$' run/state/logs/w2.log)" -ge $(((2400 - small) / 21 - 3)) ]
}

@test "agent: stopped right behind its first batches: nothing of them is trained again" {
	needs_python
	cat >quick.py <<-'END'
		import paceline
		batches = paceline.batches(state={"none": {}}, collective=True)
		for batch in batches:
		    batch.rows
		    print("batch", batch.iteration, flush=True)
		    batch.done(1.0)
	END
	printf '%s\n' JOB=quick SAMPLES=600000 WORKERS=2 BATCH=30 CHECKPOINT=end \
		"TRAINER='exec python3 $T/quick.py'" >job.env
	export PYTHONPATH=$PACELINE_ROOT/scripts/python
	# The supervisor asks every 0.1 s who trains; it may not have heard of it.
	for round in 1 2 3 4; do
		rm -rf run
		begin first
		until grep -qs '^batch 2$' run/state/logs/w1.log || gone "$SUPERVISOR"; do :; done # at once
		trainctl stop --run-dir "$T/run" >/dev/null
		ended "$SUPERVISOR"
		[ "$(last first.out state)" = stopped ]
		[ "$(ckpt show "$(last first.out checkpoint)" | field iteration)" -ge 2 ]
	done
}

@test "agent: adjust-bs and adjust-lr come with the next batch" {
	needs_python
	paced_job
	printf '%s\n' 'action kind=adjust-bs id=w0 size=7 accum=2' 'action kind=adjust-lr id=w0 scale=0.5' \
		>actions
	trainctl apply --run-dir "$T/run" <actions >said
	grep -q '^ok actions=2 ' said
	finished_exactly 20
}

# ranks_job [KEY=VALUE]...: a paced job of four that share gradients; one takes 40 ms more for each batch
ranks_job() {
	echo 0.04 >pace.w1
	paced_job "TRAINER='exec python3 $trainer --ranks 600 $T/pace'" WORKERS=4 BATCH=40 EPOCHS=12 "$@"
}

@test "agent: ranks that share gradients: every solution is exact, with a slow rank" {
	needs_python
	for solution in none even antdt-nd pace lb-bsp lb-bsp-gpu; do
		rm -rf run
		ranks_job SOLUTION=$solution,every:0.2 MONITOR=short:0.5,long:1
		case $solution in
		lb-bsp*) wait_for '[ -s run/state/balance.log ]' ;;
		antdt-nd | pace) wait_for 'grep -q "^action kind=adjust-bs id=w1 " run/state/job.log' ;;
		esac
		[ $solution = none ] || [[ $solution = lb-bsp* ]] ||
			wait_for '[ "$(grep -c "^decided " run/state/job.log)" -ge 5 ]'
		finished_exactly 12
		not grep -q '^[a-z]* kind=backup-workers' run/state/job.log
		# antdt-nd and pace may restart a rank, on a busy machine any of them.
		grep -q '^restart ' run/state/job.log || [ "$(last first.out repeated)" = 0 ]
		[ $solution != even ] || grep -q '^info name=restart-all value=1 ' run/state/job.log
	done
}

# seen_job [KEY=VALUE]...: two ranks on emulated devices (emulated_device.py), the second one four times as slow
seen_job() {
	needs_python
	echo "type=fast launch=0.002 speed=8000 saturation=4 base=0.2 each=0.002 ${fast-}" >device.w0
	echo "type=slow launch=0.002 speed=2000 saturation=4 base=0.2 each=0.002" >device.w1
	printf '%s\n' JOB=seen "TRAINER='exec python3 $trainer --ranks 1600 $T/pace'" SAMPLES=1600 BATCH=80,shard:4 \
		WORKERS=2 EPOCHS=6 "$@" >job.env
	[[ $* != *SYNC=allreduce* ]] ||
		sed -i "s|^TRAINER=.*|TRAINER='exec python3 $PACELINE_ROOT/tests/counting-trainer.py 1600'|" job.env
	rm -rf run
	run_job >out 2>err || { cat err; return 1; }
	[ "$(last out samples)" = 9600 ]
	[ "$(last out repeated)" = 0 ]
}

# most_often ID: the size that its batches have most often; with /PART if they were computed in parts
most_often() {
	awk '/^batch / { print $2 ($2 == $3 ? "" : "/" $3) }' "run/state/logs/$1.log" | sort | uniq -c | sort -n |
		awk 'END { print $2 }'
}

@test "agent: antdt-dd sees devices of trainers: sizes by Eq. 4, measured once" {
	for sync in bsp allreduce; do
		seen_job SOLUTION=antdt-dd,every:0.1 SYNC=$sync
		grep -q '^action kind=adjust-bs id=w0 size=64 accum=1 reason=antdt-dd' run/state/job.log
		grep -q '^action kind=adjust-bs id=w1 size=16 accum=1 reason=antdt-dd' run/state/job.log
		grep -q '^device type=slow launch=0.002 speed=2000 saturation=4 max=375 ' run/state/device-w1
		[ "$(most_often w0) $(most_often w1)" = "64 16" ]
	done
}

@test "agent: lb-bsp predicts the speeds of trainers, and heeds what their memory holds" {
	seen_job SOLUTION=lb-bsp,predict:narx SYNC=bsp
	grep -q '^balance .* sizes=w0:61,w1:19 ' run/state/balance.log
	awk '/^balance / && / speeds=[0-9.]*,[0-9.]* / { n++ } END { exit !n }' run/state/balance.log
	[ -s run/state/predict-w0 ]
	[ -s run/state/predict-w1 ]
	[ "$(most_often w1)" -lt 25 ]
	# The first batch of 61 rows does not fit; 40 had fitted. The other one gets the rest.
	fast=fits=50 seen_job SOLUTION=lb-bsp,predict:narx SYNC=allreduce
	grep -q 'the memory of w0 is full: more than 40 rows are computed in parts' run/state/logs/w0.log
	grep -q '^batch 61 31$' run/state/logs/w0.log
	[ "$(most_often w0) $(most_often w1)" = "40 40" ]
	grep -q '^balance .* mosts=40,' run/state/balance.log
}

@test "agent: lb-bsp-gpu: the batch of a fast trainer grows until its memory is nearly full" {
	fast=each=0.014 seen_job SOLUTION=lb-bsp-gpu SYNC=allreduce
	# 0.2 + 0.014 * 55 is more than 0.95; 50 are not. Nobody was told that more do not fit.
	[ "$(most_often w0) $(most_often w1)" = "55 25" ]
	not grep -q 'memory of w0 is full' run/state/logs/w0.log
	fast=fits=44 seen_job SOLUTION=lb-bsp-gpu SYNC=bsp
	grep -q 'the memory of w0 is full: more than 40 rows are computed in parts' run/state/logs/w0.log
	[ "$(most_often w0) $(most_often w1)" = "40 40" ]
}

@test "agent: LEAST: a slow rank has no smaller batch, until rows run out" {
	needs_python
	cat >sizes.py <<-'P'
		import os, sys
		sys.argv = ["own-rows-trainer.py", "--ranks", "600", "pace"]
		source = open(os.environ["TRAINER"]).read()
		exec(compile(source[:source.rindex("main()")], "trainer", "exec"))
		class Sizes(Trainer):
		    def sleep(self, size):
		        print("size", size, flush=True)
		        super().sleep(size)
		Sizes(600, "pace", 0).run(False, "next empty=1")
	P
	for solution in lb-bsp pace; do
		rm -rf run
		ranks_job SOLUTION=$solution,least:6,every:0.2 MONITOR=short:0.5,long:1 "TRAINER='TRAINER=$trainer exec python3 sizes.py'"
		finished_exactly 12
		# As small as it may be, where it would have got one row; nobody has less, until rows run out: of
		# one before the others, on a busy machine.
		grep -qx 'size 6' run/state/logs/w1.log
		for w in w0 w1; do
			awk '/^size / { n++; less += $2 < 6 } END { exit !(n > 0 && 5 * less < n) }' "run/state/logs/$w.log"
		done
	done
	grep -q '^decision .* least=6 ' run/state/job.log
	run -78 trainctl check job.env --run-dir "$T/run" --set SOLUTION=least:11
	[[ $output == *"BATCH=40 is less than SOLUTION=least:11 samples for each of WORKERS=4"* ]]
}

@test "agent: no batch of a trainer is left out, whoever asks for it" {
	needs_python
	printf '#!/bin/sh\necho action kind=backup-workers count=1\n' >mine
	chmod +x mine
	ranks_job "SOLUTION=$T/mine,every:0.2"
	echo 'action kind=backup-workers count=1' >actions
	run trainctl apply --run-dir "$T/run" <actions
	[ "$status" -eq 1 ] || { echo "$status $output"; return 1; }
	[[ $output == *"line 1: backup-workers: trainer (no backup workers: the batches of a TRAINER are in its own parameters already, and can't be left out"* ]]
	wait_for 'grep -q "^refused kind=backup-workers .*reason=trainer" run/state/job.log'
	grep -q "solution $T/mine: .*backup-workers: trainer .*; skipped" first.err
	finished_exactly 12
	[ "$(last first.out repeated)" = 0 ]
}

@test "check: what is not for trainers is refused, or told" {
	counting_job
	refused() {
		run trainctl check job.env --run-dir "$T/run" --set "$1"
		[ "$status" -eq 78 ] || { echo "$1: $status $output"; return 1; }
		[[ $output == *"trainctl: --set: $2"* ]] || { echo "$1: $output"; return 1; }
	}
	refused SOLUTION=backup:1 'SOLUTION=backup:N leaves batches out, but a TRAINER'
	refused BRAIN=on 'BRAIN finds how many'
	refused REBALANCE=on 'REBALANCE moves keys'
	echo SOLUTION=backup:1 >>job.env
	run trainctl run job.env --run-dir "$T/run"
	[ "$status" -eq 78 ]
	[[ $output == *"trainctl: job.env:$(wc -l <job.env): SOLUTION=backup:N leaves batches out"* ]]
	[ ! -e run ]
	run trainctl check job.env --run-dir "$T/run" --set SOLUTION=lb-bsp,predict:ema
	[ "$status" -eq 0 ]
	[[ $output != *"no effect"* ]]
	run trainctl check job.env --run-dir "$T/run" --set TRAINER_KIND=each --set SOLUTION=none,profile:on
	[[ $output == *"SOLUTION profile has no effect here: commands of TRAINER_KIND=each and rows have no iterations"* ]]
}

@test "check: a TRAINER that is not there has the status with which it would end" {
	each_job 'exec pythn3 nope.py'
	run -127 trainctl check job.env --run-dir "$T/run"
	[[ $output == *"TRAINER: pythn3: no such program here"* ]]
	run -0 trainctl check job.env --run-dir "$T/run" --set LAUNCH_WORKER=nice
	run -0 trainctl check job.env --run-dir "$T/run" --set 'TRAINER=if true; then pythn3; fi'
	run -127 trainctl check job.env --run-dir "$T/run" --set 'TRAINER=A=1 ./train'
	printf '#!/bin/sh\n' >train
	chmod +x train
	run -0 trainctl check job.env --run-dir "$T/run" --set 'TRAINER=A=1 ./train'
}

# ---- order ----

# chain_job KEY=VALUE...: one trainer whose parameters are a sum over the rows in their order
chain_job() {
	cat >chain.py <<-'P'
		import hashlib, os, sys
		sys.argv = ["own-rows-trainer.py", "600", "pace"]
		source = open(os.environ["TRAINER"]).read()
		exec(compile(source[:source.rindex("main()")], "trainer", "exec"))
		class Chain(Trainer):
		    def train(self, ranges):
		        text = self.counts.tobytes()[-32:] + repr([sorted(r.items()) for r in ranges if "seed" in r]).encode()
		        if not any("seed" in r for r in ranges):
		            rows = [i for r in ranges for i in range(int(r["begin"]), int(r["begin"]) + int(r["length"]))]
		            text += repr(rows).encode()
		        self.counts = array.array("I", hashlib.sha256(text).digest())
		Chain(8, "pace", 0).run(False, "next")
	P
	counting_job "TRAINER='TRAINER=$trainer exec python3 chain.py'" WORKERS=1 BATCH=7,shard:5 \
		EPOCHS=3 CHECKPOINT=1 "$@"
}

@test "agent: one trainer that is killed ends with the same bits as one that is not" {
	needs_python
	local how again=0
	for how in "SHUFFLE=none" "SHUFFLE=shards" "SHUFFLE=samples WORKERS=ahead:1"; do
		rm -rf run
		chain_job $how
		run_job >out
		[ "$(last out repeated)" = 0 ]
		cp "$(last out checkpoint)/w0/counts" whole
		rm -rf run
		echo 80 >pace
		begin first
		wait_for 'came_to 100'
		kill -9 $(trainer_of w0)
		wait_for 'grep -q "^repeated " run/state/job.log'
		wait_for 'has_trainer w0'
		rm pace
		ended "$SUPERVISOR"
		[ "$status" -eq 0 ]
		again=$((again + $(last first.out repeated)))
		cmp whole "$(last first.out checkpoint)/w0/counts"
	done
	[ $again -gt 0 ] # not each time: a checkpoint may have been made just before
}
