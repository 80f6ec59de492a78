# What lies in a job's state directory, and what trainctl makes of it: a run that is over, one that is
# started over, data and checkpoints that are not what they were.
load helper

# finished: a job that is done, and what it left
finished() {
	job "$@"
	run_job >first.out
	model=$(tail -n 1 first.out | field checkpoint)
	whole
}
# whole: the finished run, as it was
whole() {
	ckpt verify "$model"
	cmp <(tail -n 1 first.out) run/state/summary
	run -0 run_job
	[ "$(echo "$output" | tail -n 1)" = "$(tail -n 1 first.out)" ]
}

# ---- started over ----

@test "--fresh of a job that can't be: the finished one stays as it was" {
	finished
	awk -F, -v OFS=, 'NR == 1 { print; next } { print ($1 == 1 ? "yes" : "no"), $2, $3 }' d.csv >words.csv
	run -65 run_job --fresh --set POSITIVE=7
	whole
	run -65 run_job --fresh --set DATA="$T/words.csv" --set POSITIVE=yess
	[[ $output == *"no label is 'yess'"* ]]
	whole
	run -65 run_job --fresh --set LABEL=z
	whole
	run -66 run_job --fresh --set DATA="$T/nothing.csv"
	whole
	sed '7s/,.*,/,oops,/' d.csv >bad.csv
	run -65 run_job --fresh --set DATA="$T/bad.csv"
	[[ $output == *bad.csv:7:* ]]
	whole
	run -78 run_job --fresh --set "MODEL=wdl,hidden:$(seq -s- 100)"
	whole
	[ ! -e run/state/previous ]
	[ -z "$(ls -d run/state/fresh.* 2>/dev/null)" ]
}

@test "--fresh: the run before is kept until the new one has trained" {
	finished
	# The new one gets as far as its first checkpoint, of nothing.
	run -65 run_job --fresh --set LAUNCH_WORKER='sh -c "exit 65"'
	[[ $output == *"the earlier run is kept in $T/run/state/previous"* ]]
	ckpt verify "run/state/previous/checkpoints/$(basename "$model")"
	cmp run/state/previous/summary <(tail -n 1 first.out)
	# Once more: still the one that is worth it
	run -65 run_job --fresh --set LAUNCH_WORKER='sh -c "exit 65"'
	ckpt verify "run/state/previous/checkpoints/$(basename "$model")"
	cmp run/state/previous/summary <(tail -n 1 first.out)
	# It can be scored with, and asked.
	predict -c "run/state/previous/checkpoints/$(basename "$model")" d.csv >scores
	[ "$(wc -l <scores)" -eq 2000 ]
	[[ $(trainctl report --state-dir run/state/previous | tail -n 1) == *state=done* ]]
	# The new one goes on without --fresh, and has a model.
	run -0 run_job --set LAUNCH_WORKER=
	[ ! -e run/state/previous ]
	ckpt verify "$(echo "$output" | tail -n 1 | field checkpoint)"
}

@test "a node that a killed trainctl was just starting is waited for" {
	job
	mkdir -p run/state/nodes
	: >run/state/nodes/shardd.lock
	start other flock run/state/nodes/shardd.lock sleep 1000
	wait_for "not flock -n run/state/nodes/shardd.lock true"
	run -75 run_job --fresh
	[[ $output == *"run/state/nodes/shardd.lock: is held by a node that an earlier trainctl was just starting"* ]]
	[ ! -e run/state/journal/journal ]
	pkill -9 -P "$PID"
	kill -9 "$PID" 2>/dev/null || true
	run -0 run_job --fresh
}

# fault_at PATH ARG...: trainctl run, in the background; its calls for files whose names begin with PATH
# fail as fault/arm says (fault/disk.c).
fault_at() {
	local path=$1
	shift
	mkdir -p fault
	cc -shared -fPIC -o disk.so "$PACELINE_ROOT/tests/fault/disk.c" -ldl
	start first env FAULT="$T/fault" FAULT_UNDER="$path" PACELINE_CONFINE=off LD_PRELOAD="$T/disk.so" \
		ASAN_OPTIONS="${ASAN_OPTIONS-}:verify_asan_link_order=0" \
		trainctl run job.env --run-dir "$T/run" "$@"
	SUPERVISOR=$PID
}

@test "the storage fails once as a node is started again: it is started a second later" {
	job EPOCHS=400 CHECKPOINT=end
	slow 100
	fault_at "$T/run/state/nodes/w0.lock"
	wait_for 'came_to 64'
	echo 'open 1 EIO trainctl' >fault/arm
	strike w0
	wait_for 'grep -q "trainctl: w0 can.t be started yet: .*/w0.lock: lock can.t be made: Input/output error" first.err'
	wait_for '[ -n "$(pid_of w0)" ]'
	kill -INT $SUPERVISOR
	ended $SUPERVISOR
	[ "$status" -eq 130 ]
}

@test "storage that does not say how much room it has holds up nobody" {
	job EPOCHS=400 CHECKPOINT=end
	slow 100
	fault_at "$T/run/state"
	wait_for 'came_to 64'
	echo 'room 1 hang trainctl' >fault/arm
	wait_for '[ -s fault/struck ]'
	strike w0
	wait_for '[ "$(status | grep "^node .* id=w0 " | field restarts)" = 1 ] && [ -n "$(pid_of w0)" ]'
	rm fault/arm
	kill -INT $SUPERVISOR
	ended $SUPERVISOR
	[ "$status" -eq 130 ]
}

@test "where it can't be seen what still runs nothing is begun, and nothing moved aside" {
	job
	mkdir -p run/state/nodes fault
	echo 'open 1 EIO trainctl' >fault/arm
	fault_at "$T/run/state/nodes" --fresh
	ended $SUPERVISOR
	[ "$status" -eq 74 ]
	[ "$(cat first.err)" = "trainctl: $T/run/state/nodes: can't be listed: Input/output error" ]
}

@test "--fresh: what others keep in the state directory stays, and a name in the way is said" {
	finished
	mkdir run/state/mine run/state/previous
	echo precious >run/state/mine/note
	echo precious >run/state/previous/note
	run -78 run_job --fresh
	[[ $output == *"run/state/previous: is in the way of --fresh"* ]]
	whole
	rm -r run/state/previous
	ln -s /nowhere run/state/previous
	run -78 run_job --fresh
	whole
	rm run/state/previous
	run -78 run_job --fresh --set JOB=other
	[[ $output == *"holds the state of job tiny, not of other"* ]]
	whole
	touch run/state/balance.log run/state/balance.log.1
	run -0 run_job --fresh
	[ ! -e run/state/balance.log ]
	[ ! -e run/state/balance.log.1 ]
	[ "$(cat run/state/mine/note)" = precious ]
	[ ! -e run/state/previous ]
}

@test "--fresh: checkpoints behind a link are not gone on from, and are not moved" {
	finished
	mv run/state/checkpoints large
	ln -s "$T/large" run/state/checkpoints
	whole
	run -78 run_job --fresh
	[[ $output == *"$T/run/state/checkpoints: is a link to a directory that is not empty"* ]]
	run -78 trainctl check job.env --run-dir "$T/run" --fresh
	whole
	mkdir empty
	ln -sfn "$T/empty" run/state/checkpoints
	run -0 run_job --fresh
	[[ $output != *"the job goes on"* ]]
	[ -e empty/000001/MANIFEST ]
	ckpt verify "large/$(basename "$model")"
}

# ---- a run that is over ----

@test "a finished job whose file or data have changed is not done" {
	finished TEST=d.csv
	local was
	for was in MODEL=wdl LABEL=z EPOCHS=2 BATCH=32 SEED=2 OPTIMIZER=lr:0.3 POSITIVE=1 TEST=words.csv; do
		run -78 run_job --set "$was"
		[[ $output == *"another ${was%%=*}"*"; --fresh starts over"* ]]
		not grep -q '^summary' <<<"$output"
	done
	run -78 run_job --set EPOCHS=2 --set BATCH=32
	[[ $output == *"another BATCH (64, not 32), EPOCHS (1, not 2); --fresh starts over"* ]]
	run -0 run_job --set CHECKPOINT=keep:7 --set WORKERS=1
	whole
	# The same bytes under another time
	touch d.csv
	whole
	cp d.csv same.csv
	mv same.csv d.csv
	whole
	# As long, and another
	cp d.csv kept.csv
	sed '1500s/[0-9],c/x,c/; 1500s/x,c/7,c/; 1500s/^./Q/' d.csv >other.csv
	[ "$(stat -c %s other.csv)" = "$(stat -c %s d.csv)" ]
	cp other.csv d.csv
	run -78 run_job
	[[ $output == *"d.csv: was changed since the job began"*"--fresh starts over"* ]]
	cp kept.csv d.csv
	whole
	echo 1,2,c3 >>d.csv
	run -78 run_job
	rm d.csv
	run -66 run_job
	cp kept.csv d.csv
	whole
}

# stopped_job: a job that was stopped in its first epoch, and is slow no longer.
stopped_job() {
	job MODEL=audit EPOCHS=5
	slow 400
	begin first
	wait_for 'came_to 200'
	trainctl stop --run-dir "$T/run" >/dev/null
	wait $SUPERVISOR || true
	rm drag/*
}

@test "a stopped job whose data have changed is refused, and goes on with the old ones" {
	stopped_job
	cp d.csv kept.csv
	sed '1500s/^./1/; 1501s/^./0/; 1502s/^./1/; 1503s/^./0/' d.csv >other.csv
	[ "$(stat -c %s other.csv)" = "$(stat -c %s d.csv)" ]
	cp other.csv d.csv
	run -78 run_job
	[[ $output == *"d.csv: was changed since the job began"* ]]
	cp kept.csv d.csv
	run -0 run_job
}

# Whoever copies a job to begin another one may copy too much of it.
@test "a stopped job whose files are another job's, a directory or a pipe: it says which, and waits for none" {
	stopped_job
	local name mine
	mine=$(grep '^time ' run/state/kept)
	sed s/^JOB=.*/JOB=other/ job.env >other.env
	trainctl run other.env --run-dir "$T/other" --set EPOCHS=1 >/dev/null
	cp other/state/kept run/state/kept
	run -65 run_job
	[[ $output == *"run/state/kept:1: damaged, or of another job: its checksum differs; without this line the time that the job has run counts from 0"* ]]
	rm run/state/kept
	mkdir run/state/kept
	run -66 run_job
	[[ $output == *"run/state/kept: is a directory; a file is needed"* ]]
	rmdir run/state/kept
	echo "$mine" >run/state/kept
	for name in kept job.env data-sums schema; do
		mv run/state/$name mine
		mkfifo run/state/$name
		run -66 timeout 60 trainctl run job.env --run-dir "$T/run"
		[[ $output == *"run/state/$name: is a pipe; a file is needed"* ]]
		mv mine run/state/$name
	done
	run -0 run_job
	exact "$(tail -n 1 <<<"$output" | field checkpoint)" 2000 5
}

@test "a rollback that can't be written down: who interrupts does not wait for it, and it goes on another day: exact" {
	job MODEL=audit EPOCHS=5
	slow 400
	begin first
	wait_for 'came_to 200'
	rm -f run/state/kept
	mkdir run/state/kept
	strike ps1
	wait_for 'grep -q "the intent to roll back can.t be written yet" first.err'
	kill -TERM $SUPERVISOR
	ended $SUPERVISOR
	[ "$status" -eq 143 ]
	rmdir run/state/kept
	rm drag/*
	run -0 run_job
	exact "$(tail -n 1 <<<"$output" | field checkpoint)" 2000 5
}

@test "a last checkpoint that fails: who interrupts waits for three tries, and it goes on another day: exact" {
	job MODEL=audit EPOCHS=5 CHECKPOINT=end
	slow 400
	begin first
	wait_for 'came_to 200'
	mv run/state/job.env kept.env
	mkdir run/state/job.env # the checkpoint would have it
	kill -TERM $SUPERVISOR
	ended $SUPERVISOR
	[ "$status" -eq 143 ]
	grep -q "no last checkpoint after 3 tries: what was trained since .*/000001 is trained again" first.err
	rmdir run/state/job.env
	mv kept.env run/state/job.env
	rm drag/*
	run -0 run_job
	exact "$(tail -n 1 <<<"$output" | field checkpoint)" 2000 5
}

@test "data that go away: the job fails, but what was trained is in a last checkpoint: exact" {
	job MODEL=audit EPOCHS=5 CHECKPOINT=end RESTARTS=1
	slow 400
	begin first
	wait_for 'came_to 200'
	mv d.csv kept.csv
	kill -9 "$(pid_of w0)"
	ended $SUPERVISOR
	[ "$status" -eq 66 ]
	grep -q 'd.csv: .*No such file' first.err
	[ "$(field samples <<<"$(tail -n 1 first.out)")" -ge 200 ]
	grep -Eq '^checkpoint .*/000002 .* stall=[0-9.]+ seconds=[0-9.]+ at=' run/state/job.log
	mv kept.csv d.csv
	rm drag/*
	run -0 run_job
	exact "$(tail -n 1 <<<"$output" | field checkpoint)" 2000 5
}

# bats test_tags=long
@test "a job fails while its lead stands still, and nothing is ever hung: it ends without a last checkpoint" {
	job MODEL=audit EPOCHS=500 CHECKPOINT=end RESTARTS=0 HUNG=never
	slow 100
	start first fast trainctl run job.env --run-dir "$T/run"
	wait_for 'came_to 100'
	kill -STOP "$(pid_of ps0)"
	kill -9 "$(pid_of w0)"
	ended "$PID"
	[ "$status" -eq 137 ]
	grep -q 'no last checkpoint within 9[0-9]* s: what was trained since .*/000001 is trained again' first.err
}

@test "the records of nodes are gone when the job is stopped: no node is left" {
	local pid
	job MODEL=audit EPOCHS=500
	slow 40
	start first fast trainctl run job.env --run-dir "$T/run"
	SUPERVISOR=$PID
	wait_for '[ "$(logged "^row .* samples-done=[1-9]")" -ge 1 ]'
	# shellcheck disable=SC2046
	PIDS+=($(cat run/state/nodes/*.[0-9] >records; record_pids records))
	rm -r run/state/nodes
	kill -TERM $SUPERVISOR
	ended $SUPERVISOR
	[ "$status" -eq 143 ]
	[ ${#PIDS[@]} -eq 13 ] # trainctl, six nodes and their parents
	for pid in "${PIDS[@]:1}"; do wait_for "gone $pid"; done
}

@test "held shards: the status of a finished job is the same again" {
	finished
	sed -i 's/ held=0 / held=2 /; s/ exit=0 / exit=1 /' run/state/summary
	run -1 run_job
	[[ $output == *" held=2 "* ]]
	# An earlier version did not write it down.
	sed -i 's/ exit=1 / /' run/state/summary
	run -1 run_job
}

# ---- labels, TEST, bad rows ----

@test "one class only is an error, unless it is said that it is none" {
	data 300
	sed -i 's/^[01],/0,/' d.csv
	job
	run -65 run_job
	[[ $output == *"d.csv: all 300 rows have label 0; BAD_ROWS=classes:any"* ]]
	run -65 run_job --set POSITIVE=yes
	[[ $output == *"POSITIVE: no label is 'yes', so all 300 rows have label 0"* ]]
	run -65 run_job --set MODEL=scale:none
	sed -i 's/^0,/1,/' d.csv
	run -65 run_job
	[[ $output == *"all 300 rows have label 1"* ]]
	run -78 run_job --set BAD_ROWS=classes:one
	[ -z "$(ls run/state/nodes)" ]
	run -0 run_job --set BAD_ROWS=classes:any
	# no label is looked at
	run -0 run_job --fresh --set MODEL=audit
}

@test "TEST is looked at before anything is trained" {
	job
	run -66 run_job --set TEST="$T/nothing.csv"
	[[ $output == *"TEST: $T/nothing.csv"* ]]
	: >empty.csv
	run -65 run_job --set TEST="$T/empty.csv"
	echo y,a,b >head.csv
	run -65 run_job --set TEST="$T/head.csv"
	[[ $output == *"holds no row"* ]]
	sed 1s/y/why/ d.csv >label.csv
	run -65 run_job --set TEST="$T/label.csv"
	[[ $output == *label.csv:1*"'y'"* ]]
	sed '9s/,/,x/' d.csv >row.csv
	run -65 run_job --set TEST="$T/row.csv"
	[[ $output == *row.csv:9:* ]]
	mkfifo pipe.csv
	run -66 run_job --set TEST="$T/pipe.csv"
	[[ $output == *"pipe.csv: is a pipe, but a file is needed"* ]]
	[ -z "$(ls run/state/nodes)" ]
	run -0 run_job --set TEST="$T/row.csv" --set BAD_ROWS=skip:1
}

@test "a scoring that failed is in the exit status, and is done again" {
	sed 's/^1,/0,/' <(data 2000; cat d.csv) >zero.csv
	data 2000
	sed '1900s/,/,x/' d.csv >late.csv
	job
	run -65 run_job --set TEST="$T/late.csv"
	[[ $(echo "$output" | tail -n 1) == *"state=done"*" score=failed"* ]]
	[[ $output == *late.csv:1900* ]]
	[ ! -e run/state/summary ]
	run -65 run_job --set TEST="$T/zero.csv"
	[[ $output == *"rows of both classes"* ]]
	run -0 run_job --set TEST="$T/d.csv"
	[[ $(echo "$output" | tail -n 1) == *" samples=2000 "*" auc="* ]]
	[ -e run/state/summary ]
}

@test "rows that were left out are counted in the summary" {
	data 2000
	sed -i '5s/,/,x/; 500s/,/,x/; 1500s/,/,x/' d.csv
	job BAD_ROWS=skip:9
	run -0 run_job --set EPOCHS=2
	[ "$(echo "$output" | tail -n 1 | field bad-rows)" = 3 ]
	run -0 run_job --fresh --set MODEL=scale:none --set BAD_ROWS=skip:3
	[ "$(echo "$output" | tail -n 1 | field bad-rows)" = 3 ]
	run -65 run_job --fresh --set MODEL=scale:none --set BAD_ROWS=skip:2
}

# ---- checkpoints that are gone ----

@test "a server dies and its checkpoints are gone: the job fails, and says what is missing" {
	job MODEL=audit EPOCHS=20 CHECKPOINT=end
	slow 400
	begin first
	wait_for 'came_to 200'
	rm -r run/state/checkpoints/*
	kill -9 "$(pid_of ps1)"
	ended $SUPERVISOR
	[ "$status" -eq 66 ]
	grep -q "run/state/checkpoints holds no complete checkpoint to go back to any more, but [0-9]* samples" first.err
	run -66 run_job
	[[ $output == *"has no complete checkpoint"*"--fresh starts over"* ]]
	rm drag/*
	run -0 run_job --fresh
}

@test "a server dies and its checkpoints can't be read: the job fails, and goes on when they can" {
	job MODEL=audit EPOCHS=5 CHECKPOINT=end
	slow 400
	begin first
	wait_for 'came_to 200'
	cp run/state/checkpoints/000001/shards kept
	printf 'x' | dd of=run/state/checkpoints/000001/shards conv=notrunc status=none
	kill -9 "$(pid_of ps1)"
	ended $SUPERVISOR
	[ "$status" -eq 65 ]
	grep -q 'no checkpoint to go back to: .*000001/shards' first.err
	run -65 run_job
	[[ $output == *"000001 is damaged, and is passed over: "*"000001/shards"* ]]
	[[ $output == *"has no complete checkpoint that is not damaged, but "*"--fresh starts over"* ]]
	cp kept run/state/checkpoints/000001/shards
	rm drag/*
	run -0 run_job
	[ "$(echo "$output" | tail -n 1 | field samples)" = 10000 ]
}

@test "a server dies and the disk can't be read: the job fails, does not say to start over, and goes on when it can" {
	job MODEL=audit EPOCHS=5 CHECKPOINT=end
	slow 400
	begin first
	wait_for 'came_to 200'
	mv run/state/checkpoints/000001/MANIFEST kept
	ln -s /proc/self/mem run/state/checkpoints/000001/MANIFEST # reading it is EIO
	kill -9 "$(pid_of ps1)"
	ended $SUPERVISOR
	[ "$status" -eq 74 ]
	grep -q "no checkpoint to go back to: .*000001/MANIFEST: .*Input/output error" first.err
	run -74 run_job
	[[ $output == *"has no complete checkpoint that can be read now, but "* ]]
	[[ $output != *--fresh* ]]
	mv kept run/state/checkpoints/000001/MANIFEST
	rm drag/*
	run -0 run_job
	[ "$(echo "$output" | tail -n 1 | field samples)" = 10000 ]
}

@test "checkpoints that are damaged are passed over, and the job says so" {
	job MODEL=audit EPOCHS=5 CHECKPOINT=end,keep:9
	slow 400
	begin first
	wait_for 'came_to 200'
	for i in 2 3 4 5; do trainctl checkpoint --run-dir "$T/run" >/dev/null; done
	cd run/state/checkpoints
	# Nothing but reading all of it shows what is wrong with 2; that something is with 3, its sums; with
	# 4, its lengths; with 5, its last line.
	at=$(grep -a -o 'section=rows at=[0-9]*' 000002/part-1 | head -n 1 | cut -d= -f3)
	flip 000002/part-1 "$at"
	flip 000003/shards 20
	truncate -s -1 000004/part-0
	flip 000005/MANIFEST 40
	cd "$T"
	kill -9 "$(pid_of ps1)"
	wait_for 'grep -q "checkpoint .*/000002 is damaged, and is passed over: .*000002/part-1: block" first.err'
	grep -q "checkpoint .*/000003 is damaged, and is passed over: .*000003/shards" first.err
	grep -q "checkpoint .*/000004 is damaged, and is passed over: .*000004/part-0" first.err
	grep -q "checkpoint .*/000005 is damaged, and is passed over: .*000005/MANIFEST" first.err
	rm drag/*
	ended $SUPERVISOR
	[ "$status" -eq 0 ]
	[ "$(tail -n 1 first.out | field samples)" = 10000 ]
}

@test "a start passes over what is damaged as a rollback does, whether servers run or not" {
	job MODEL=audit EPOCHS=5 CHECKPOINT=end,keep:9
	slow 400
	begin first
	wait_for 'came_to 200'
	for i in 2 3 4; do trainctl checkpoint --run-dir "$T/run" >/dev/null; done
	kill -9 $SUPERVISOR
	wait $SUPERVISOR || true
	# Both have all their bytes: nothing but their sums shows it.
	flip run/state/checkpoints/000003/shards 20
	flip run/state/checkpoints/000004/part-0 "$(($(stat -c %s run/state/checkpoints/000004/part-0) - 40))"
	begin second
	wait_for running
	grep -q "checkpoint .*/000004 is damaged, and is passed over: .*000004/part-0" second.err
	grep -q "checkpoint .*/000003 is damaged, and is passed over: .*000003/shards" second.err
	[ "$(status | plrec where type=job | field checkpoint)" = "$T/run/state/checkpoints/000002" ]
	kill -9 "$(pid_of ps1)"
	wait_for 'pgrep -af "ps-server .*$T/run" | grep -q -- "--restore $T/run/state/checkpoints/000002"'
	[ "$(grep -c "000004 is damaged" second.err)" = 1 ]
	rm drag/*
	ended $SUPERVISOR
	[ "$status" -eq 0 ]
	[ "$(tail -n 1 second.out | field samples)" = 10000 ]
}

@test "CHECKPOINT full: rows that changed; all go back to one, and nothing is lost" {
	job MODEL=audit EPOCHS=5 CHECKPOINT=end,keep:2,full:4
	slow 400
	begin first
	wait_for 'came_to 100'
	for i in 2 3 4 5 6; do trainctl checkpoint --run-dir "$T/run" >/dev/null; done
	# 1 is made before anything is trained, then three from it; 5 is whole again. Those of before are
	# removed beside the job.
	printf '%s\t%s\n' 000005 - 000006 000005 >bases
	wait_for 'ckpt list run/state/checkpoints 2>/dev/null | plrec tsv name base | cmp -s - bases'
	ckpt verify run/state/checkpoints/000006
	wait_for 'came_to 300'
	kill -9 "$(pid_of ps1)"
	wait_for 'pgrep -af "ps-server .*$T/run" | grep -q -- "--restore $T/run/state/checkpoints/000006"'
	rm drag/*
	ended $SUPERVISOR
	[ "$status" -eq 0 ]
	[ "$(tail -n 1 first.out | field samples)" = 10000 ]
	last=$(tail -n 1 first.out | field checkpoint)
	[ "$(ckpt show "$last" | plrec where type=checkpoint | plrec tsv base)" = - ]
}

@test "a checkpoint that gets no answer is in the log" {
	job MODEL=audit EPOCHS=5 CHECKPOINT=end
	slow 400
	begin first
	wait_for 'came_to 200'
	local stopped
	stopped=$(pid_of ps1)
	kill -STOP "$stopped"
	trainctl checkpoint --run-dir "$T/run" >/dev/null 2>asked &
	PIDS+=($!)
	wait_for '[ -d run/state/checkpoints/000002 ]'
	kill -9 "$(pid_of ps0)"
	wait_for 'grep -q "checkpoint .*/000002 failed: the lead gave no answer" first.err'
	kill -CONT "$stopped" 2>/dev/null || :
	rm drag/*
	ended $SUPERVISOR
	[ "$status" -eq 0 ]
	[ "$(tail -n 1 first.out | field samples)" = 10000 ]
}

@test "CHECKPOINT memory: servers go back to what is in memory, and it is gone at the end" {
	job MODEL=audit EPOCHS=5 "CHECKPOINT=end,memory:$T"
	slow 400
	begin first
	wait_for 'came_to 200'
	trainctl checkpoint --run-dir "$T/run" >/dev/null
	[ "$(ls -d paceline-*/part-* | wc -l)" = 2 ]
	kill -9 "$(pid_of ps1)"
	wait_for 'cat run/state/logs/ps*.log | grep -q "000002: restored from memory"'
	# As of a server that was killed while it left.
	touch "$(dirname paceline-*/part-0.*)/part-5.0123456789abcdef"
	rm drag/*
	ended $SUPERVISOR
	[ "$status" -eq 0 ]
	[ "$(tail -n 1 first.out | field samples)" = 10000 ]
	[ -z "$(ls -d paceline-* 2>/dev/null)" ]
}

# kill_all: kill -9 of the supervisor, the nodes and their parents
kill_all() {
	local record parent pid
	kill -9 $SUPERVISOR
	wait $SUPERVISOR || true
	for record in run/state/nodes/*.[0-9]*; do
		read -r parent pid < <(record_pids "$record")
		kill -9 "$parent" "$pid" 2>/dev/null || true
		wait_for "[ ! -e /proc/$pid/cmdline ] || ! grep -qs . /proc/$pid/cmdline"
	done
}

@test "CHECKPOINT memory: who holds it outlives a node, and with the last process all of it is gone" {
	job MODEL=audit EPOCHS=5 "CHECKPOINT=end,memory:$T"
	slow 400
	begin first
	wait_for 'came_to 200'
	trainctl checkpoint --run-dir "$T/run" >/dev/null
	for link in paceline-*/part-0.* paceline-*/part-1.*; do
		[[ "$(readlink "$link")" == /proc/*/fd/* ]]
		[ -s "$link" ]
		# Sealed: nobody can change what a server is to begin with.
		run bash -c "echo x >>'$link'"
		[ "$status" -ne 0 ]
	done
	kill_all
	begin second
	wait_for 'cat run/state/logs/ps*.log | grep -q "000002: restored from memory"'
	# Something is trained, or the next checkpoint is the same, and so is its name.
	wait_for running
	trained=$(done_samples)
	wait_for '[ "$(done_samples)" -gt "$trained" ]'
	before=$(echo paceline-*/part-0.*)
	trainctl checkpoint --run-dir "$T/run" >/dev/null
	[ "$(echo paceline-*/part-0.*)" != "$before" ]
	holders=$(readlink paceline-*/part-* | cut -d/ -f3)
	kill_all
	kill -9 $holders
	for pid in $holders; do wait_for "[ ! -e /proc/$pid/fd/0 ]"; done
	for link in paceline-*/part-*; do [ ! -e "$link" ]; done
	begin third
	wait_for running
	wait_for 'pgrep -af "ps-server .*$T/run" | grep -q -- "--restore $T/run/state/checkpoints/000003"'
	rm drag/*
	ended $SUPERVISOR
	[ "$status" -eq 0 ]
	[ "$(tail -n 1 third.out | field samples)" = 10000 ]
	not grep -q '000003: restored from memory' run/state/logs/*.log
}

@test "an intent whose checkpoint is gone takes another, or fails" {
	job MODEL=audit EPOCHS=5 CHECKPOINT=end
	slow 400
	begin first
	wait_for 'came_to 200'
	trainctl checkpoint --run-dir "$T/run" >/dev/null
	kill -9 $SUPERVISOR
	wait $SUPERVISOR || true
	keep "intent kind=move cut=$T/run/state/checkpoints/000099 reason=server at=1"
	run -65 run_job
	[[ $output == *"run/state/kept:"[1-9]": kind=move is no intent"* ]]
	keep "intent kind=rollback cut=$T/run/state/checkpoints/000099 reason=server at=1"
	begin second
	wait_for 'grep -q "the intent.s checkpoint: .*000099" second.err'
	wait_for 'pgrep -af "ps-server .*$T/run" | grep -q -- "--restore $T/run/state/checkpoints/000002"'
	wait_for 'not is_kept intent'
	kill -9 $SUPERVISOR
	wait $SUPERVISOR || true
	rm -r run/state/checkpoints/*
	keep "intent kind=rollback cut=$T/run/state/checkpoints/000002 reason=server at=1"
	run -66 run_job
	[[ $output == *"checkpoints/000002, the checkpoint of a rollback, is gone"* ]]
}

# end_of_boot: all is killed, and the machine started anew; the pids and starts of servers are those of
# another process then
end_of_boot() {
	local record parent pid start
	kill -9 $SUPERVISOR
	wait $SUPERVISOR || true
	for record in run/state/nodes/*.[0-9]*; do
		read -r parent pid < <(record_pids "$record")
		kill -9 "$parent" "$pid" || true
		wait_for "[ ! -e /proc/$pid/cmdline ] || ! grep -qs . /proc/$pid/cmdline"
	done
	start=$(sed 's/.*) //' /proc/$OTHER/stat | cut -d' ' -f20)
	sed -i "s/ pid=[0-9]* start=[0-9]*/ pid=$OTHER start=$start/; /^end /d" run/state/nodes/ps*.[0-9]*
	boot "$1"
}

@test "the machine is started anew: all go back to the newest checkpoint; without one only --fresh helps" {
	start other sleep 600
	OTHER=$PID
	boot aaaa-1
	job MODEL=audit EPOCHS=5 CHECKPOINT=end
	slow 400
	begin first
	wait_for 'came_to 100'
	trainctl checkpoint --run-dir "$T/run" >/dev/null
	wait_for 'came_to 300'
	end_of_boot bbbb-2
	begin second
	wait_for 'grep -q "^rollback .*the job goes on: all servers begin with the last checkpoint" run/state/job.log'
	wait_for 'grep -q "the job goes on at [0-9.k]* of 10.0k samples" second.err'
	wait_for 'pgrep -af "ps-server .*$T/run" | grep -q -- "--restore $T/run/state/checkpoints/000002"'
	not grep -q '^event .*kind=adopt' run/state/job.log
	grep -q 'boot aaaa-1 of the machine' run/state/logs/shardd.log
	rm drag/*
	wait $SUPERVISOR
	exact "$(tail -n 1 second.out | field checkpoint)" 2000 5

	slow 400
	begin third --fresh
	wait_for 'came_to 100'
	end_of_boot cccc-3
	rm -r run/state/checkpoints/*
	run -66 run_job
	[[ $output == *"has no complete checkpoint, but "*" samples count as done, or more: the machine was started anew since; --fresh starts over"* ]]
	rm drag/*
	run -0 run_job --fresh
}

# ---- its log ----

# torn: as a power cut leaves it
torn() { printf 'event role=worker id=w0 ki' >>run/state/job.log; }
whole_log() { plrec where type=begin <run/state/job.log >/dev/null; }

@test "a log that ends in the middle of a line: report and replay take it, the next start cuts it" {
	job SOLUTION=even,every:0.2 EPOCHS=10
	slow 4000
	run_job >first.out
	local decisions
	decisions=$(grep -c ^decided run/state/job.log)
	torn
	run -65 whole_log
	run -0 trainctl report --run-dir run
	[[ $(tail -n 1 <<<"$output") == *" state=done runs=1 "*" decisions=$decisions "* ]]
	run -0 trainctl solve --log run/state/job.log
	[ "$(grep -c ^decision <<<"$output")" -eq "$decisions" ]
	rm run/state/summary
	run -0 run_job
	whole_log
	run -0 trainctl report --run-dir run
	[[ $(tail -n 1 <<<"$output") == *" runs=2 "* ]]
	# Elsewhere it is still an error with its place.
	sed -i '3s/^[^ ]*/?/' run/state/job.log
	run -65 trainctl report --run-dir run
	[[ $output == *job.log:3:* ]]
}

# grown: the log, to where it is put away; whole lines and one write, as trainctl writes there, too
grown() {
	yes 'row iteration=1 epoch=1 epochs=1 loss= samples-done=0 samples=9 at=1' |
		head -n 980000 >lines
	dd if=lines of=run/state/job.log bs=128M iflag=fullblock oflag=append conv=notrunc 2>/dev/null
}

@test "a log that grew large begins again, and report reads both" {
	job EPOCHS=20
	slow 1000
	begin first
	wait_for 'came_to 100'
	grown
	wait_for '[ -e run/state/job.log.1 ]'
	rm drag/*
	wait $SUPERVISOR
	[ "$(stat -c %s run/state/job.log.1)" -ge 67108864 ]
	[ "$(stat -c %s run/state/job.log)" -lt 100000 ]
	head -n 1 run/state/job.log | grep -q '^begin job=tiny .* goes-on=1 at='
	whole_log
	run -0 trainctl report --run-dir run
	[[ $(tail -n 1 <<<"$output") == *" job=tiny state=done runs=1 "* ]]
	# The older half may be gone.
	rm run/state/job.log.1
	run -0 trainctl report --run-dir run
	[[ $(tail -n 1 <<<"$output") == *" job=tiny state=done runs=1 "* ]]
	# One that was left so large is put away before the next run begins.
	grown
	rm run/state/summary
	run -0 run_job
	head -n 1 run/state/job.log | grep -q '^begin job=tiny .* solution=none at='
	run -0 trainctl report --run-dir run
	[[ $(tail -n 1 <<<"$output") == *" job=tiny state=done runs=2 "* ]]
}

@test "a log that was moved away begins again" {
	job EPOCHS=20
	slow 1000
	begin first
	wait_for 'came_to 100'
	mv run/state/job.log run/state/job.log.1
	wait_for 'grep -qs "^series " run/state/job.log'
	rm drag/*
	wait $SUPERVISOR
	head -n 1 run/state/job.log | grep -q '^begin job=tiny .* goes-on=1 at='
	run -0 trainctl report --run-dir run
	[[ $(tail -n 1 <<<"$output") == *" job=tiny state=done runs=1 "* ]]
}

@test "what the monitor took is kept; its log begins again when it has grown large or was moved" {
	job EPOCHS=1000
	slow 2000
	begin first
	wait_for 'grep -qs "^bpt role=worker id=w1 " run/state/bpt.log'
	mv run/state/bpt.log before
	wait_for 'grep -qs "^bpt role=worker id=w1 " run/state/bpt.log'
	truncate -s 64M run/state/bpt.log
	wait_for '[ -e run/state/bpt.log.1 ]'
	wait_for 'grep -qs "^bpt role=worker id=w0 " run/state/bpt.log'
	trainctl stop --run-dir run
	cat before run/state/bpt.log | bpt-monitor --filter | plrec where type=node | plrec tsv id >ids
	[ "$(sort ids | tr '\n' ' ')" = "ps0 ps1 w0 w1 " ]
	run -0 run_job --fresh --set EPOCHS=1
	[ ! -e run/state/bpt.log.1 ]
}

# ---- its time ----

spent() { grep '^time ' run/state/kept | field seconds | cut -d. -f1; }

@test "MAX_TIME counts over all starts" {
	job MODEL=audit EPOCHS=50 MAX_TIME=100000
	slow 400
	begin first
	wait_for 'came_to 200'
	wait_for 'is_kept time'
	kill -9 $SUPERVISOR
	wait $SUPERVISOR || true
	begin second
	wait_for 'came_to 400'
	trainctl stop --run-dir "$T/run" >/dev/null
	wait $SUPERVISOR || true
	awk -F'[= ]' '/^time seconds=[0-9.]+ sum=/ && $3 > 0 { ok = 1 } END { exit !ok }' run/state/kept
	keep 'time seconds=99999.5'
	run -0 run_job
	grep -q 'MAX_TIME is over' <<<"$output"
	[[ $(tail -n 1 <<<"$output") == *" state=done "* ]]
	[ "$(tail -n 1 <<<"$output" | field samples)" -lt 100000 ]
	[ "$(spent)" -ge 100000 ]
	rm run/state/summary
	keep 'time seconds=soon'
	run -65 run_job
	[[ $output == *run/state/kept:[1-9]:*seconds* ]]
	# --fresh begins anew
	run -0 run_job --fresh --set EPOCHS=1 --set DRAG=
	[ "$(spent)" -lt 1000 ]
}

# ---- where its sockets are ----

@test "after a logout, and from cron, a job is found again" {
	local name=tiny-$$-$RANDOM
	job MODEL=audit EPOCHS=50 JOB=$name
	slow 400
	# As in a session, whose directory goes with it
	mkdir session
	XDG_RUNTIME_DIR=$T/session start first nohup trainctl run job.env
	SUPERVISOR=$PID
	from_cron() { env -i PATH="$PATH" HOME="$T" XDG_STATE_HOME="$T/home" "$@"; }
	wait_for 'from_cron trainctl status -j '$name' 2>/dev/null | grep -q "^job .* state=running"'
	rm -rf session
	run -0 from_cron trainctl checkpoint -j $name
	# Started again from elsewhere it minds the nodes that run.
	kill -9 $SUPERVISOR
	wait $SUPERVISOR || true
	mkdir unit
	RUNTIME_DIRECTORY=$T/unit start second trainctl run job.env
	SUPERVISOR=$PID
	wait_for 'grep -q "6 nodes run already and are adopted" second.err'
	wait_for 'from_cron trainctl status -j '$name' 2>/dev/null | grep -q "^job .* state=running"'
	run -0 from_cron trainctl stop -j $name
	wait $SUPERVISOR || true
	rm -r "/tmp/paceline-$(id -u)/$name"
}

@test "a directory in /tmp that another made first is not taken" {
	[ "$(id -u)" = 0 ] && command -v setpriv >/dev/null || skip "needs root"
	job JOB=theirs
	chmod 755 "$T"
	chmod 644 d.csv job.env
	# Of a user that nobody is: what is made stands under that number.
	local uid=$((50000 + RANDOM % 10000))
	local base=/tmp/paceline-$uid
	mkdir -m 777 $base
	mkdir home
	chown $uid home
	run setpriv --reuid $uid --clear-groups trainctl run job.env
	rm -r $base
	[ "$status" -eq 77 ]
	[[ $output == *"$base: belongs to another user"* ]]
	# nothing is made where a link of somebody else's leads to
	mkdir -m 777 elsewhere
	ln -s "$T/elsewhere" $base
	run setpriv --reuid $uid --clear-groups trainctl run job.env
	rm $base
	[ "$status" -eq 77 ]
	[[ $output == *"$base: belongs to another user"* ]]
	[ -z "$(ls elsewhere)" ]
}

# ---- pruning ----

@test "a checkpoint that is being scored is not pruned" {
	job TEST=d.csv EVAL=0.1 CHECKPOINT=end,keep:1 EPOCHS=50
	slow 1000
	# Programs are looked for beside trainctl first: its predict waits.
	mkdir bin
	cp "$(command -v trainctl)" bin
	cat >bin/predict <<-END
		#!/bin/sh
		echo "\$2" >"$T/scored"
		while [ ! -e "$T/go" ]; do sleep 0.05; done
		exec "$(command -v predict)" "\$@"
	END
	chmod +x bin/predict
	start first bin/trainctl run job.env --run-dir "$T/run"
	SUPERVISOR=$PID
	wait_for '[ -s scored ]'
	trainctl checkpoint --run-dir "$T/run" >/dev/null
	trainctl checkpoint --run-dir "$T/run" >/dev/null
	ckpt verify "$(cat scored)"
	touch go
	wait_for 'grep -q "^score " run/state/job.log'
	not grep -q 'scoring TEST' first.err
	# Then it goes as others do.
	local old
	old=$(cat scored)
	trainctl checkpoint --run-dir "$T/run" >/dev/null
	wait_for '[ ! -e "$old" ]'
}

@test "nodes that run are minded, whatever has become of TEST" {
	job TEST=t.csv EPOCHS=20
	cp d.csv t.csv
	slow 1000
	begin first
	wait_for 'came_to 100'
	kill -9 $SUPERVISOR
	wait $SUPERVISOR || true
	rm t.csv
	begin second
	wait_for 'grep -q "6 nodes run already and are adopted" second.err'
	rm drag/*
	ended $SUPERVISOR
	[ "$status" -eq 66 ]
	[[ $(tail -n 1 second.out) == *" state=done "*" score=failed"* ]]
	cp d.csv t.csv
	run -0 run_job
}

@test "--fresh and what a user keeps in the state directory" {
	job EPOCHS=1
	mkdir -p p/data p/time p/logs
	cp d.csv p/data/d.csv
	cp d.csv p/logs/d.csv
	# Data where a run's own files are would go with them.
	run -78 trainctl run job.env --run-dir r --state-dir p --set "DATA=$T/p/logs/d.csv" --fresh
	[[ $output == *"p/logs/d.csv: lies where --fresh removes"* ]]
	cmp d.csv p/logs/d.csv
	run -0 trainctl run job.env --run-dir r --state-dir p --set "DATA=$T/p/data/d.csv" --fresh
	run -0 trainctl run job.env --run-dir r --state-dir p --set "DATA=$T/p/data/d.csv" --fresh
	cmp d.csv p/data/d.csv
	[ -d p/time ]
}

@test "a start that failed has fixed nothing: what the job is made of may change before it began" {
	job EPOCHS=1 TEST=nope.csv
	run -66 run_job
	echo 1,5,c1 >>d.csv
	sed -i '/^TEST/d' job.env
	run -0 run_job
	[[ $output == *"samples=2001 "* ]]
}

# ---- a disk that is full ----

# small SIZE: the run directory is in a file system of that size
small() {
	mkdir disk
	mount -t tmpfs -o size="$1" none disk 2>/dev/null || skip "no tmpfs can be mounted here"
	ln -s "$T/disk" run
}
teardown_more() {
	[ ! -d disk ] || { end_jobs; umount -l disk 2>/dev/null || true; }
}
waits() { status 2>/dev/null | grep '^job ' | grep -q " why=no%20room%20in%20$T/run/state "; }

@test "a full disk: the job waits, says so, and goes on when there is room: exact" {
	small 1m
	data 400
	job MODEL=audit EPOCHS=4 CHECKPOINT=0.5
	slow 60
	begin first
	wait_for 'came_to 20'
	dd if=/dev/zero of=disk/fill bs=4k 2>/dev/null || true
	wait_for waits
	wait_for 'grep -q "the job waits: no room in $T/run/state" first.err'
	local w0 ps1
	w0=$(pid_of w0)
	kill -9 "$w0"
	# its end is known at once, and the next one waits for room
	wait_for '[ "$(status | grep "^node .* id=w0 " | field state)" = off ]'
	grep -q '^end signal=9 ' run/state/nodes/w0.0
	# said once, not at each try
	wait_for 'grep -q "state/kept: .*No space left" first.err'
	sleep 2.5 # two more tries
	[ "$(grep -c "state/kept: .*No space left" first.err)" -eq 1 ]
	rm disk/fill
	wait_for '[ -n "$(pid_of w0)" ] && [ "$(pid_of w0)" != "$w0" ]'
	wait_for 'grep -q "there is room in $T/run/state again" first.err'
	not waits
	rm drag/*
	wait $SUPERVISOR
	not grep -q 'does not end\|parent does not say so' first.err
	exact "$(last first.out checkpoint)" 400 4
}

@test "a full disk: who interrupts does not wait for a checkpoint, and it goes on another day: exact" {
	small 1m
	data 400
	job MODEL=audit EPOCHS=4 CHECKPOINT=end
	slow 60
	begin first
	wait_for 'came_to 20'
	dd if=/dev/zero of=disk/fill bs=4k 2>/dev/null || true
	wait_for waits
	kill -INT $SUPERVISOR
	local code=0
	wait $SUPERVISOR || code=$?
	[ $code -eq 130 ]
	grep -q "no room in $T/run/state for a last checkpoint: what was trained since .*/000001 is trained again" first.err
	not grep -q 'does not complete its request' first.err
	tail -n 1 first.out | grep -q ' state=stopped '
	rm disk/fill drag/*
	run_job >second.out
	exact "$(last second.out checkpoint)" 400 4
}

@test "a limit to the size of files is a full disk, not a death by SIGXFSZ" {
	job EPOCHS=400 CHECKPOINT=end
	slow 2000
	(ulimit -f 40; exec trainctl run job.env --run-dir "$T/run") >first.out 2>first.err &
	SUPERVISOR=$!
	wait_for waits
	kill -INT $SUPERVISOR
	local code=0
	wait $SUPERVISOR || code=$?
	[ $code -eq 130 ]
	[ "$(grep -l '^end signal=25 ' run/state/nodes/* | wc -l)" -eq 0 ]
}

@test "too few open files: said before anything starts, and by check" {
	job
	run -71 bash -c "ulimit -n 40; trainctl check job.env --run-dir '$T/run'"
	[[ $output == *"trainctl: files and sockets: 40 may be open at once, but the 6 nodes of this job need 54: raise the limit (ulimit -n)" ]]
	[ ! -e run/state ]
	run -0 bash -c "ulimit -n 54; trainctl check job.env --run-dir '$T/run'"
	run -71 bash -c "ulimit -n 40; trainctl run job.env --run-dir '$T/run'"
	[[ $output == "trainctl: files and sockets: 40 may be open at once, but the "*" nodes of this job need "*": raise the limit (ulimit -n)" ]]
	[ -z "$(ls run/state/nodes)" ]
}

@test "too few open files for so many workers: scale says so, and nothing starts" {
	job BATCH=400 EPOCHS=400
	slow 100
	ulimit -n 80
	begin first
	wait_for 'came_to 64'
	run -1 --separate-stderr trainctl scale --run-dir "$T/run" --workers 60
	[[ $stderr == *"no-room: files and sockets: 80 may be open at once, but the "*"raise the limit (ulimit -n)" ]]
	[ -z "$(ls run/state/nodes/w2.* 2>/dev/null)" ]
	trainctl stop --run-dir "$T/run"
	ended "$PID"
}

@test "what is tried again and again is said once" {
	job EPOCHS=400 CHECKPOINT=end
	slow 100
	begin first
	wait_for 'came_to 64'
	start holder flock run/state/nodes/w0.lock sleep 1000
	strike w0
	wait_for 'grep -q "trainctl: w0 can.t be started yet: " first.err'
	for i in 1 2 3 4 5 6; do trainctl checkpoint --run-dir "$T/run" >/dev/null; done
	pkill -9 -P "$PID"
	kill -9 "$PID" 2>/dev/null || true
	wait_for '[ -n "$(pid_of w0)" ]'
	[ "$(grep -c "trainctl: w0 can.t be started yet: " first.err)" -eq 1 ]
	[ "$(grep -c "^retry.*w0 can.t be started yet: " run/state/job.log)" -eq 1 ]
}
