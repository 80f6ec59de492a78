# rooms: agent run lead
# Jobs whose ranks have the parameters, and whose gradients the kit sums (TRAINER with SYNC=allreduce).
load helper

setup_file() { needs_python; }

# ranks_job [KEY=VALUE]...: counting-trainer.py, 600 rows, each batch 30 ms, for longer than any test: it is over once
# there is a file counts/enough. Ranks write their counts into the directory counts.
ranks_job() {
	mkdir counts
	printf '%s\n' JOB=ranks SAMPLES=600 WORKERS=3 BATCH=30,shard:2 EPOCHS=1000 SYNC=allreduce \
		"TRAINER='cd $T/counts && exec python3 $BATS_TEST_DIRNAME/counting-trainer.py 600 0.03'" "$@" >job.env
}

# starts_held: a trainer for ranks_job that begins when there is no file counts/hold.ID.
starts_held() { printf '%s' "TRAINER='cd $T/counts && while [ -e hold.\$PACELINE_ID ]; do sleep 0.05; done; exec python3 $BATS_TEST_DIRNAME/counting-trainer.py 600 0.03'"; }

# node ID ROLE: it is up, and has this role.
node() { in_status "^node role=$2 id=$1 state=up "; }
# began ID LIFE: this process of it is a rank that trains.
began() { grep -q "^event role=worker id=$1 kind=ready life=$2 " run/state/job.log; }

# went_back N: so often all have gone back to a checkpoint; a job that goes on begins with one.
went_back() { [ "$(grep '^rollback ' run/state/job.log | grep -vc 'the job goes on:')" -eq "$1" ]; }

# members N: so many ranks train.
members() { [ "$(ask run/lead.sock members 2>/dev/null | grep -c ' state=active ')" = "$1" ]; }

# alike OUT RANK...: it is enough, once these train; then the job is done, nobody went back, and all of them, and nobody
# else, have each row equally often, in all as often as the job counts.
alike() {
	local out=$1 rank
	shift
	wait_for "members $#"
	touch counts/enough
	wait $SUPERVISOR
	[ "$(last "$out" ended)" = enough ]
	went_back 0
	rm counts/enough
	[ "$(cd counts && echo *)" = "$(printf '%s.counts\n' "$@" | sort | xargs)" ]
	for rank; do cmp "counts/$1.counts" "counts/$rank.counts"; done
	[ "$(awk '{ n += $1 } END { print n }' "counts/$1.counts")" -eq "$(last "$out" samples)" ]
}

@test "ranks: a spare takes a dead rank's place, who is a spare from then on; nobody goes back" {
	ranks_job WORKERS=3,spares:1 RESTARTS=shard:never SOLUTION=antdt-nd,every:0.2
	begin first
	wait_for 'came_to 200'
	wait_for 'node s0 spare'
	# A snapshot of before comes behind it.
	local monitor
	monitor=$(pid_of bpt-monitor)
	kill -STOP "$monitor"
	sleep 0.5
	kill -9 "$(trainer_of w1)"
	wait_for 'node s0 worker'
	kill -CONT "$monitor"
	wait_for 'node w1 spare'
	kill -9 "$(pid_of w0)"
	wait_for 'node w1 worker'
	wait_for '[ "$(grep -A 1000 "^spare id=w1 for=w0 " run/state/job.log | grep -c "^decided ")" -ge 2 ]'
	alike first.out s0 w1 w2
	[ "$(logged '^spare id=s0 for=w1 ')" = 1 ]
	[ "$(logged 'but there are')" = 0 ]
}

@test "ranks: a spare whose trainer is stopped is not taken, and is one again when it goes on" {
	sockets() { ls -l "/proc/$(pid_of s0)/fd" | grep -c socket; }
	ranks_job WORKERS=2,spares:1 RESTARTS=shard:never
	begin first
	wait_for 'came_to 100'
	wait_for 'node s0 spare'
	wait_for '[ "$(sockets)" -ge 4 ]'
	local asked
	asked=$(sockets)
	kill -STOP "$(trainer_of s0)"
	wait_for '[ "$(sockets)" -lt '"$asked"' ]'
	kill -9 "$(pid_of w1)"
	wait_for 'began w1 1'
	kill -CONT "$(trainer_of s0)"
	wait_for '[ "$(sockets)" -ge '"$asked"' ]'
	kill -9 "$(pid_of w1)"
	wait_for 'node s0 worker'
	alike first.out s0 w0
	[ "$(logged '^spare ')" -eq 1 ]
}

@test "ranks: a spare waits while lead, replica and trainctl die, and it becomes rank 0: it is told so" {
	ranks_job WORKERS=2,spares:1 RESTARTS=shard:never
	begin first
	wait_for 'came_to 100'
	wait_for 'node s0 spare'
	local spare lead replica
	spare=$(trainer_of s0) lead=$(pid_of lead) replica=$(pid_of r0)
	kill -9 $SUPERVISOR
	ended $SUPERVISOR
	begin second
	kill -9 "$lead" "$replica"
	wait_for '[ -n "$(pid_of lead)" ] && [ "$(pid_of lead)" != '"$lead"' ]'
	wait_for 'node r0 replica && [ "$(pid_of r0)" != '"$replica"' ]'
	wait_for 'came_to 600'
	kill -9 "$(pid_of w0)"
	wait_for 'node s0 worker'
	[ "$(trainer_of s0)" = "$spare" ]
	alike second.out s0 w1
	[ "$(last second.out repeated)" = 0 ]
	grep -q '^rank 0$' run/state/logs/s0.log
}

@test "ranks: SIGTERM to an agent, its trainer and both takes nobody back; after one to trainctl the job goes on" {
	ranks_job
	begin first
	wait_for 'came_to 200'
	kill -TERM "$(pid_of w1)"
	wait_for 'began w1 1'
	kill -TERM "$(pid_of w1)" "$(trainer_of w1)"
	kill -TERM "$(trainer_of w2)"
	wait_for 'began w1 2 && began w2 1'
	kill -TERM $SUPERVISOR
	ended $SUPERVISOR
	[ "$status" -eq 143 ]
	[ "$(last first.out repeated)" = 0 ] # but what they train while the last checkpoint is written is trained again
	begin second
	alike second.out w0 w1 w2
}

@test "ranks: one leaves only when something was trained since it is to: another one may stand still, and die" {
	ranks_job WORKERS=2
	begin first
	wait_for 'came_to 200'
	kill -STOP "$(trainer_of w0)"
	wait_for '[ "$(ask run/lead.sock stat | field iteration)" = "$(sleep 0.3; ask run/lead.sock stat | field iteration)" ]'
	start scale trainctl scale --workers 1 --run-dir "$T/run"
	wait_for '[ "$(logged "^scale workers=1 ")" = 1 ]'
	kill -9 "$(trainer_of w0)"
	ended "$PID"
	[ "$status" -eq 0 ]
	alike first.out w0
}

@test "ranks: rows on which each of them fails: the job ends" {
	ranks_job WORKERS=2 "TRAINER='cd $T/counts && python3 $BATS_TEST_DIRNAME/counting-trainer.py 300 0.03 || exit 65'"
	run -65 trainctl run job.env --run-dir run
	[ "$(logged '^rollback ')" -eq 0 ]
}

# solved SOLUTION...: each with a job of four, one of which takes 5 ms more for each row: it acts, and all are alike. It
# restarts nobody: a rank that is on its way back when it is enough has no counts at the end.
solved() {
	local solution
	for solution; do
		rm -rf run counts
		ranks_job WORKERS=4 BATCH=40,shard:2 SOLUTION=$solution,every:0.2 KILL_RESTART=0 \
			MONITOR=short:0.5,long:1 \
			"TRAINER='cd $T/counts && exec python3 $BATS_TEST_DIRNAME/counting-trainer.py 600'"
		echo 0.005 >counts/pace.w1
		begin first
		case $solution in
		lb-bsp*) wait_for '[ -s run/state/balance.log ]' ;;
		antdt-nd | pace) wait_for 'grep -q "^action kind=adjust-bs id=w1 " run/state/job.log' ;;
		esac
		[[ $solution = lb-bsp* ]] || wait_for '[ "$(logged "^decided ")" -ge 3 ]'
		[[ $solution = even ]] || wait_for '[ "$(status | sed -n "s/^node .* id=w1 .* size=\([0-9]*\).*/\1/p")" -lt 10 ]'
		rm counts/pace.w1
		alike first.out w0 w1 w2 w3
	done
}

@test "ranks: solutions give a slow rank smaller batches, and all ranks have each row alike" {
	solved pace lb-bsp
}

# bats test_tags=long
@test "ranks: the other solutions" {
	solved even antdt-nd lb-bsp-gpu
}

@test "ranks: BATCH stays when ranks come and go; with scaling it and the learning rate follow them" {
	local scaling
	for scaling in none linear; do
		rm -rf run counts
		ranks_job WORKERS=2 BATCH=20,shard:2,scaling:$scaling
		begin first
		wait_for 'came_to 60'
		trainctl scale --run-dir "$T/run" --workers 4
		wait_for '[ "$(status | grep -c "^node role=worker .* state=up .* size=$([ $scaling = none ] && echo 5 || echo 10) ")" = 4 ]'
		if [ $scaling = linear ]; then wait_for 'grep -qx "lr-scale 2" run/state/logs/w0.log && grep -qx "lr-scale 2" run/state/logs/w3.log'; fi
		trainctl scale --run-dir "$T/run" --workers 1
		wait_for '[ "$(status | grep -c "^node role=worker .* size=$([ $scaling = none ] && echo 20 || echo 10) ")" = 1 ]'
		alike first.out w0
	done
}

@test "ranks: sizes that were given while a rank was dead sum to BATCH when it is back, and when it goes" {
	ranks_job WORKERS=4 BATCH=47,shard:2 KILL_RESTART=0 RESTARTS=50 \
		"TRAINER='cd $T/counts && ! [ -e bad -a \$RANK = 1 ] && exec python3 $BATS_TEST_DIRNAME/counting-trainer.py 600 0.03'"
	begin first
	sizes() { ask run/lead.sock members | grep ' state=active ' | sed 's/.* size=\([0-9]*\).*/\1/' | xargs; }
	wait_for 'members 4 && came_to 200'
	touch counts/bad
	kill -9 "$(trainer_of w1)"
	wait_for 'members 3'
	for i in 0 2 3; do echo "action kind=adjust-bs id=w$i size=$((20 - i * i)) accum=1"; done | trainctl apply --run-dir "$T/run"
	wait_for '[ "$(sizes)" = "20 16 11" ]'
	rm counts/bad
	wait_for 'members 4'
	wait_for '[ "$(sizes | wc -w)" = 4 ] && [ "$(($(sizes | tr " " +)))" = 47 ]'
	touch counts/bad
	kill -9 "$(trainer_of w3)"
	wait_for '[ "$(sizes | wc -w)" = 3 ] && [ "$(($(sizes | tr " " +)))" = 47 ]'
	wait_for 'members 4'
	rm counts/bad
	alike first.out w0 w1 w2 w3
}

@test "ranks: kill-restart takes nobody back; the last rank that has the parameters waits for another, a single one saves" {
	ranks_job WORKERS=2 KILL_RESTART=9,window:0 \
		"TRAINER='cd $T/counts && sleep 0.5 && exec python3 $BATS_TEST_DIRNAME/counting-trainer.py 600 0.02'"
	begin first
	wait_for 'came_to 60 && began w0 0 && began w1 0'
	trainctl kill-restart --run-dir "$T/run" w0
	kill -9 "$(pid_of w1)"
	wait_for '! node w1 worker && began w0 1'
	trainctl kill-restart --run-dir "$T/run" w0
	wait_for 'began w1 1 && began w0 2'
	kill -9 "$(pid_of w0)"
	wait_for '! node w0 worker'
	trainctl scale --run-dir "$T/run" --workers 1 # w1 leaves when w0 has what it has
	began w0 3
	went_back 0
	wait_for "came_to $(($(done_samples) + 2000))" # it is seen to train
	trainctl kill-restart --run-dir "$T/run" w0
	went_back 1
	touch counts/enough
	wait $SUPERVISOR
	# Without a save it would be all 2000 and more; between the save and its end it may train some batches.
	[ "$(last first.out repeated)" -le 1000 ]
	[ "$(awk '{ n += $1 } END { print n }' counts/w0.counts)" -eq "$(last first.out samples)" ]
}

@test "ranks: the last one dies while the others start, long after they went back: nobody asks for the checkpoint that is pruned by now" {
	local round
	ranks_job WORKERS=2 CHECKPOINT=0.2,keep:1 "$(starts_held)"
	begin first
	for round in 1 2; do
		wait_for '[ "$(logged "^pruned checkpoint=")" -ge '$((4 * round))' ] && members 2'
		touch counts/hold.w1
		kill -9 "$(trainer_of w1)"
		wait_for '[ "$(logged "^event role=worker id=w1 kind=restart ")" = '$((2 * round - 1))' ]'
		kill -9 "$(trainer_of w0)"
		wait_for '[ "$(logged "^event role=worker id=w0 kind=restart ")" = '$((2 * round - 1))' ]'
		rm counts/hold.w1
		wait_for "went_back $round"
	done
	wait_for 'members 2'
	touch counts/enough
	wait $SUPERVISOR
	[ "$(last first.out ended)" = enough ]
	went_back 2
	cmp counts/w0.counts counts/w1.counts
}

@test "ranks: SIGTERM to all processes of the job at once: it ends without waiting, and goes on from the last checkpoint" {
	ranks_job EPOCHS=4 CHECKPOINT=0.5
	local all=() pid rank
	for rank in w0 w1 w2; do echo 0.03 >counts/pace.$rank; done
	begin first
	wait_for 'came_to 240 && grep -q "^checkpoint .* iteration=[1-9]" run/state/job.log'
	for pid in $(status | sed -n 's/^node .* pid=\([0-9]*\) .*/\1/p'); do
		all+=($pid $(children_of $pid))
	done
	kill -TERM $SUPERVISOR "${all[@]}"
	ended $SUPERVISOR
	[ "$status" -eq 143 ]
	rm counts/pace.*
	begin second
	wait $SUPERVISOR
	[ "$(last second.out state)" = done ]
	went_back 0
	[ "$(cd counts && echo *)" = "w0.counts w1.counts w2.counts" ]
	[ "$(sort -u counts/*)" = 4 ]
}

@test "ranks: one that is not up when it is enough is awaited, and runs what follows its loop" {
	local i
	ranks_job WORKERS=2 RESTARTS=9
	begin first
	wait_for 'came_to 200'
	for i in 1 2 3 4 5; do # after the last one it pauses for 1.6 s
		wait_for '[ -n "$(pid_of w1)" ]'
		kill -9 "$(pid_of w1)"
		wait_for '[ "$(logged "^relaunch .*w1")" -ge '$i' ]'
	done
	touch counts/enough
	wait $SUPERVISOR
	[ "$(last first.out ended)" = enough ]
	went_back 0
	cmp counts/w0.counts counts/w1.counts
}

@test "ranks: one that still starts when it is enough gets the last state, and runs what follows its loop" {
	ranks_job WORKERS=2 "$(starts_held)"
	begin first
	wait_for 'came_to 200'
	touch counts/hold.w1
	kill -9 "$(pid_of w1)"
	wait_for '[ "$(logged "^event role=worker id=w1 kind=restart ")" = 1 ]'
	touch counts/enough
	wait_for 'grep -q "^phase name=last-cut" run/state/job.log'
	wait_for '[ "$(logged "^checkpoint ")" = 2 ]'
	rm counts/hold.w1 counts/enough
	wait $SUPERVISOR
	[ "$(last first.out ended)" = enough ]
	went_back 0
	cmp counts/w0.counts counts/w1.counts
}

@test "ranks: in a job with another SYNC nobody sums, and in this one each must: it fails, and says so" {
	ranks_job SYNC=asp WORKERS=1
	run -65 trainctl run job.env --run-dir "$T/run"
	[[ $output == *"'sums': the script gives sums=, which needs SYNC=allreduce in the job file"* ]]
	rm -rf run counts
	ranks_job WORKERS=1 "TRAINER='PYTHONPATH=$PACELINE_ROOT/scripts/python exec python3 $T/none.py'"
	echo 'import paceline; [batch.rows for batch in paceline.batches(state={})]' >none.py
	run -65 trainctl run job.env --run-dir "$T/run"
	[[ $output == *"the job sums gradients (SYNC=allreduce), and the script gives it none: in Python epochs() or batches() need sums=model, "* ]]
}

# held_job PHASE FILE [KEY=VALUE]...: of two epochs, whose ranks are held by FILE.ID until go, when the job is in this
# phase.
held_job() {
	rm -rf run counts
	ranks_job EPOCHS=2 "${@:3}"
	touch counts/$2.w{0,1,2}
	begin first
	wait_for "grep -q '^phase name=$1 ' run/state/job.log 2>/dev/null"
}
# go_well RESTARTS: it is done after so many restarts, nobody has trained anything again, and each rank has each row twice.
go_well() {
	rm counts/*.w?
	wait $SUPERVISOR
	[ "$(last first.out exit) $(last first.out restarts) $(last first.out repeated)" = "0 $1 0" ]
	[ "$(sort -u counts/*) $(cd counts && echo *)" = "2 w0.counts w1.counts w2.counts" ]
}

@test "ranks: one that dies in its last validation is started anew with the last state, and what follows its loop runs" {
	local rank how
	for rank in w0 w2; do
		for how in trainer_of pid_of; do
			held_job last-cut linger
			kill -9 "$($how $rank)"
			wait_for "[ \"\$(logged '^event role=worker id=$rank kind=exit ')\" = 1 ]"
			go_well 1
			went_back 0
			[ "$(grep -c '^over$' run/state/logs/$rank.log)" = 1 ]
		done
	done
}

@test "ranks: one that dies behind its loop, also unseen: what follows it runs again in all" {
	local how
	ends_unseen() { record_pids run/state/nodes/$1.0; }
	for how in trainer_of pid_of ends_unseen; do
		held_job finishing behind
		wait_for 'grep -q "^over$" run/state/logs/w0.log'
		kill -9 $($how w0)
		go_well 5
		[ "$(grep -c '^over$' run/state/logs/w0.log run/state/logs/w1.log | xargs)" = "run/state/logs/w0.log:2 run/state/logs/w1.log:2" ]
	done
}

@test "ranks: one whose parent is killed ends well behind its loop, which nobody sees: nothing runs again" {
	held_job finishing behind
	wait_for 'grep -q "^over$" run/state/logs/w0.log'
	kill -9 "$(record_pids run/state/nodes/w0.0 | cut -d " " -f 1)"
	wait_for '[ "$(logged "^orphan .*w0 goes on without its parent")" = 1 ]'
	go_well 0
	went_back 0
}

@test "ranks: one that was to leave while it started, and is killed behind the others' loops: nothing runs again" {
	ranks_job WORKERS=2 EPOCHS=40 RESTARTS=shard:never "$(starts_held)"
	touch counts/behind.w0
	begin first
	wait_for 'came_to 300 && began w1 0'
	touch counts/hold.w1
	kill -9 "$(trainer_of w1)"
	wait_for '[ "$(logged "^event role=worker id=w1 kind=restart life=1 ")" = 1 ] && [ -n "$(trainer_of w1)" ]'
	kill -STOP "$(pid_of w1)"
	start scale trainctl scale --workers 1 --run-dir "$T/run"
	wait_for '[ "$(logged "^scale workers=1 ")" = 1 ]'
	touch counts/enough
	wait_for 'grep -q "^over$" run/state/logs/w0.log'
	kill -9 "$(pid_of w1)"
	wait_for '[ "$(logged "^event role=worker id=w1 kind=exit signal=9 class=retryable life=1 ")" = 1 ]'
	rm counts/behind.w0
	wait $SUPERVISOR
	[ "$(last first.out ended) $(last first.out exit)" = "enough 0" ]
	went_back 0
	[ "$(grep -c '^over$' run/state/logs/w0.log)" = 1 ]
}

@test "ranks: one that is to save and does not come back from its last validation is killed by HUNG" {
	held_job last-cut linger HUNG=checkpoint:2
	rm counts/linger.w[12]
	wait_for '[ "$(logged "^event role=worker id=w0 kind=hung ")" = 1 ]'
	go_well 1
	went_back 0
}

@test "ranks: one that is stopped behind its loop is killed, and what follows the loop runs again in all" {
	held_job finishing behind
	wait_for 'grep -q "^over$" run/state/logs/w1.log'
	kill -STOP "$(trainer_of w1)"
	wait_for '[ "$(logged "^event role=worker id=w1 kind=hung ")" = 1 ]'
	go_well 5
}

@test "ranks: one that starts has no rows; if it is stopped then, or its agent is, it is killed long before a start may end" {
	local how
	for how in trainer_of pid_of; do
		rm -rf run counts
		ranks_job WORKERS=2 EPOCHS=40 HUNG=batch:3 "$(starts_held)"
		touch counts/hold.w1
		begin first
		wait_for 'came_to 300 && [ -n "$(trainer_of w1)" ]'
		run -0 ask run/shardd.sock "who worker=w1"
		[[ $output != *shard* ]]
		kill -STOP "$($how w1)"
		wait_for '[ "$(logged "^event role=worker id=w1 kind=hung section=start .* state=T%20(stopped) ")" = 1 ]'
		rm counts/hold.w1
		wait_for 'members 2'
		touch counts/enough
		wait $SUPERVISOR
		went_back 0
		cmp counts/w0.counts counts/w1.counts
	done
}
