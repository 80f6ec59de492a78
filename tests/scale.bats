load helper

# Workers come and go while a job trains. MODEL=audit counts how often each row is in the model.

EPOCHS=12

# begin_scaled [KEY=VALUE]...: a job that trains until let_go, however fast the machine is: its
# workers are slow as long as their drag files are there.
begin_scaled() {
	job MODEL=audit "EPOCHS=$EPOCHS" CHECKPOINT=0.5 MONITOR=report:1 "$@"
	slow 400
	for w in w4 w5 w6 w7; do cp drag/w0 "drag/$w"; done
	begin first
	wait_for 'came_to 100'
}
let_go() {
	rm -rf drag
	ended $SUPERVISOR
	[ "$status" -eq 0 ]
}
scale() { trainctl scale --run-dir "$T/run" "$@"; }
workers() { status | grep '^node role=worker ' | field id | tr '\n' ' '; }
all_up() { [ "$(status | grep -c '^node role=worker .* state=up ')" = "$1" ]; }
# further: until a checkpoint has more than the last one.
further() {
	local before
	before=$(newest)
	wait_for '[ "$(newest)" -gt '"$before"' ]'
}
newest() { grep '^checkpoint ' run/state/job.log | tail -n 1 | field iteration; }
audited() { exact "$(summary "${1:-first.out}" | field checkpoint)" 2000 "$EPOCHS"; }

@test "scale: 2, 6, 3 workers under bsp: every row is trained exactly once an epoch" {
	begin_scaled
	run scale --workers 6
	[ "$status" -eq 0 ]
	[[ $output == "ok workers=6 servers=2 seconds="* ]]
	[ "$(workers)" = "w0 w1 w2 w3 w4 w5 " ]
	all_up 6
	run scale --workers 3
	[ "$status" -eq 0 ]
	[[ $output == "ok workers=3 servers=2 seconds="* ]]
	[ "$(workers)" = "w0 w1 w2 " ]
	[ "$(logged '^event role=worker id=w[345] kind=left ')" = 3 ]
	[ "$(logged '^scaled workers=6 servers=2 from-workers=2 ')" = 1 ]
	let_go
	audited
	[ "$(summary first.out | field restarts)" = 0 ]
	# The shares of the global batch, in the order in which they were given.
	grep '^action kind=adjust-bs ' run/state/job.log | field size | tr '\n' ' ' >sizes
	[ "$(cat sizes)" = "11 10 11 11 10 11 22 20 22 " ]
	grep -q '^acted by=scale ' run/state/job.log
}

@test "scale: ssp and asp: every row is trained" {
	for sync in ssp:2 asp; do
		begin_scaled "SYNC=$sync"
		scale --workers 6
		all_up 6
		scale --workers 3
		[ "$(workers)" = "w0 w1 w2 " ]
		let_go
		exact_or_more "$(summary first.out | field checkpoint)" 2000 "$EPOCHS"
		[ "$(summary first.out | field samples)" = $((2000 * EPOCHS)) ]
		rm -rf run
	done
}

@test "scale: what can't be is refused with words, and the job goes on" {
	begin_scaled
	run -1 scale --workers 0
	[[ $output == *"bad-scale: a job needs at least one worker"* ]]
	run -64 scale --workers many
	[[ $output == *"--workers: 'many' is not a whole number"* ]]
	run -64 scale
	[[ $output == *"scale: what is to change? Give --workers N, --servers N or --hosts H1,H2"* ]]
	# Others than trainctl may ask, too.
	run -0 ask run/trainctl.sock 'scale workers=many'
	[[ $output == *"err code=bad-scale"*"workers=: 'many'"* ]]
	run -0 ask run/trainctl.sock 'scale'
	[[ $output == *"err code=bad-scale"*"workers=, servers= or hosts= is missing"* ]]
	run -1 scale --workers 1025
	[[ $output == *"no-room: a job has 1024 workers at most"* ]]
	run -1 scale --workers 65
	[[ $output == *"no-room: BATCH=64 is less than one sample for each of 65 workers"* ]]
	scale --workers 2
	[ "$(workers)" = "w0 w1 " ]
	not is_kept scale
	[ "$(logged '^scale-refused ')" = 2 ]
	let_go
	audited
	run -69 scale --workers 3
}

@test "scale: several at once are carried out in their order" {
	begin_scaled
	start one scale --workers 5
	one=$PID
	wait_for 'is_kept scale'
	start two scale --workers 1
	two=$PID
	start three trainctl checkpoint --run-dir "$T/run"
	three=$PID
	ended $one
	[ "$status" -eq 0 ]
	ended $two
	[ "$status" -eq 0 ]
	ended $three
	[ "$status" -eq 0 ]
	grep -q '^ok workers=5 ' one.out
	grep -q '^ok workers=1 ' two.out
	[ "$(workers)" = "w0 " ]
	let_go
	audited
}

@test "scale: a supervisor that is killed in the middle: the next one goes on with it" {
	begin_scaled
	start up scale --workers 6
	wait_for 'is_kept scale'
	kill -9 $SUPERVISOR
	wait_for 'not kill -0 $SUPERVISOR 2>/dev/null'
	begin second
	wait_for 'all_up 6'
	wait_for '[ "$(logged "^scaled workers=6 ")" = 1 ]'
	start down scale --workers 3
	wait_for '[ "$(logged "^scale workers=3 ")" = 1 ]'
	kill -9 $SUPERVISOR
	wait_for 'not kill -0 $SUPERVISOR 2>/dev/null'
	begin third
	wait_for '[ "$(logged "^scaled workers=3 ")" = 1 ]'
	wait_for '[ "$(workers)" = "w0 w1 w2 " ]'
	let_go
	audited third.out
}

@test "scale: a server and a leaver die meanwhile" {
	begin_scaled
	scale --workers 4
	start down scale --workers 2
	kill -9 "$(pid_of ps1)" "$(pid_of w3)" || true
	ended $PID
	[ "$status" -eq 0 ]
	[ "$(workers)" = "w0 w1 " ]
	scale --workers 3
	[ "$(workers)" = "w0 w1 w2 " ]
	let_go
	audited
}

@test "scale: it holds after a stop; a job file that is changed wins" {
	begin_scaled
	scale --workers 3
	trainctl stop --run-dir "$T/run"
	ended $SUPERVISOR
	begin second
	wait_for 'all_up 3'
	grep -q 'goes on with 3 workers and 2 servers, as it was scaled; the job file has 2 and 2' second.err
	trainctl stop --run-dir "$T/run"
	ended $SUPERVISOR
	sed -i 's/WORKERS=2/WORKERS=4/' job.env
	begin third
	wait_for 'all_up 4'
	grep -q 'WORKERS=4 and SERVERS=2 of the job file have changed since the job was scaled to 3 and 2: they hold' third.err
	let_go
	audited third.out
}

@test "scale: what is kept of it is damaged, then gone, while more nodes run than the job file says: exact" {
	begin_scaled SERVERS=1
	scale --workers 4 --servers 3
	further
	kill -9 $SUPERVISOR
	ended $SUPERVISOR
	cp run/state/kept whole
	for damage in 's/^scale .*/scale workers=/' '/^scale /s/ workers=4/ workers=5/' \
		's/^scale .*/scale job-workers=2 job-servers=1 workers=0 servers=1/'; do
		sed "$damage" whole >run/state/kept
		run -65 run_job
		[[ $output == *"/state/kept:"[1-9]": "*"; without this line the job goes on from its last checkpoint, with WORKERS and SERVERS of the job file"* ]]
	done
	sed '/^scale /d' whole >run/state/kept
	strays=$(sed -n 's/^node .* pid=\([0-9]*\) .*/\1/p' run/state/nodes/w3.0 run/state/nodes/ps2.0)
	begin second
	wait_for 'running && all_up 2'
	[ "$(servers)" = "ps0 " ]
	for pid in $strays; do wait_for "not kill -0 $pid 2>/dev/null"; done
	scale --workers 3 --servers 2
	let_go
	audited second.out
}

# bats test_tags=long
@test "scale: BATCH scaling" {
	begin_scaled BATCH=scaling:sqrt
	scale --workers 4
	[ "$(grep '^scaled ' run/state/job.log | field batch)" = 128 ]
	[[ $(grep '^scaled ' run/state/job.log | field lr-factor) == 1.4142* ]]
	[ "$(logged '^action kind=adjust-lr id=w. scale=1.4142')" = 4 ]
	[ "$(logged '^action kind=adjust-bs id=w. size=32 ')" = 4 ]
	trainctl stop --run-dir "$T/run"
	ended $SUPERVISOR
	sed -i 's/=sqrt/=linear/' job.env
	begin second
	wait_for 'grep -q "^acted by=in-force actions=4 " run/state/job.log'
	let_go
	audited second.out
	run -78 run_job --fresh --set SOLUTION=lb-bsp
	[[ $output == *"SOLUTION=lb-bsp shares BATCH at every barrier: BATCH=scaling:none"* ]]
	# More workers than samples, once the batch does not grow with them any more.
	rm -rf run
	begin_scaled BATCH=4,scaling:linear
	scale --workers 8
	trainctl stop --run-dir "$T/run"
	ended $SUPERVISOR
	sed -i 's/:linear/:none/' job.env
	begin third
	wait_for 'all_up 4'
	grep -q 'BATCH=4 is less than one sample for each of the 8 workers .*: there are 4' third.err
	let_go
	audited third.out
}

# ---- servers ----

servers() { status | grep '^node role=server ' | field id | tr '\n' ' '; }

@test "scale: 1, 3, 2, 4 servers: every row is in the model exactly once an epoch" {
	begin_scaled SERVERS=1
	run scale --servers 3
	[ "$status" -eq 0 ]
	[[ $output == "ok workers=2 servers=3 seconds="*" moved-bytes="*" stall="* ]]
	[ "$(servers)" = "ps0 ps1 ps2 " ]
	scale --servers 2
	[ "$(servers)" = "ps0 ps1 " ]
	trainctl checkpoint --run-dir "$T/run" >cut
	ckpt verify "$(field path <cut)"
	scale --servers 4 --workers 3
	[ "$(servers)" = "ps0 ps1 ps2 ps3 " ]
	[ "$(workers)" = "w0 w1 w2 " ]
	run -1 scale --servers 65
	[[ $output == *"no-room: a job has 64 servers at most"* ]]
	let_go
	audited
	[ "$(logged '^rollback ')" = 0 ]
	[ "$(summary first.out | field restarts)" = 0 ]
}

@test "scale: the sockets of all servers together are longer than a line" {
	local deep
	printf -v deep '%s/%080d' "$T" 0
	deep=${deep:0:90}
	job MODEL=audit "EPOCHS=$EPOCHS" SERVERS=1
	slow 400
	start first trainctl run job.env --run-dir "$deep"
	SUPERVISOR=$PID
	wait_for 'grep -q "^phase name=running" "$deep/state/job.log"'
	start up trainctl scale --run-dir "$deep" --servers 48
	ended $PID
	grep -q '^ok workers=2 servers=48 ' up.out
	start down trainctl scale --run-dir "$deep" --servers 1
	ended $PID
	grep -q '^ok workers=2 servers=1 ' down.out
	not grep -q '^rollback ' "$deep/state/job.log"
	let_go
	audited
}

@test "scale: servers that have moved hand over, die, and begin anew" {
	begin_scaled SERVERS=1 KILL_RESTART=window:0 CHECKPOINT=0.3
	scale --servers 3
	trainctl kill-restart --run-dir "$T/run" ps1
	trainctl kill-restart --run-dir "$T/run" ps0
	kill -9 "$(pid_of ps2)"
	wait_for '[ "$(logged "^phase name=rollback")" = 1 ]'
	wait_for 'running'
	[ "$(servers)" = "ps0 ps1 ps2 " ]
	scale --servers 2
	[ "$(servers)" = "ps0 ps1 " ]
	trainctl stop --run-dir "$T/run"
	ended $SUPERVISOR
	begin second
	wait_for 'all_up 2'
	[ "$(servers)" = "ps0 ps1 " ]
	scale --servers 1
	[ "$(servers)" = "ps0 " ]
	let_go
	audited second.out
}

@test "scale: a supervisor that is killed while servers come or go" {
	begin_scaled SERVERS=1
	start up scale --servers 3
	wait_for '[ "$(logged "^scale workers=2 servers=3 ")" = 1 ]'
	kill -9 $SUPERVISOR
	wait_for 'not kill -0 $SUPERVISOR 2>/dev/null'
	begin second
	wait_for '[ "$(logged "^scaled workers=2 servers=3 ")" = 1 ]'
	wait_for '[ "$(servers)" = "ps0 ps1 ps2 " ]'
	start down scale --servers 2
	wait_for '[ "$(logged "^scale workers=2 servers=2 ")" = 1 ]'
	kill -9 $SUPERVISOR
	wait_for 'not kill -0 $SUPERVISOR 2>/dev/null'
	begin third
	wait_for '[ "$(logged "^scaled workers=2 servers=2 ")" = 1 ]'
	wait_for '[ "$(servers)" = "ps0 ps1 " ]'
	let_go
	audited third.out
	grep '^rollback ' run/state/job.log || true
	[ "$(logged '^rollback ')" = 0 ]
}

# What a kill between two writes leaves: the file says that the change is under way, and the log has
# both records of it, or only the first, or none.
@test "scale: killed between the log and what is kept: each change is in the log once" {
	begin_scaled SERVERS=1
	scale --servers 2
	local lacks n=1
	[ "$(logged '^scaled workers=2 servers=2 .* change=1 ')" = 1 ]
	for lacks in '^scaled-never ' '^scaled ' '^scaled\? '; do
		kill -9 $SUPERVISOR
		wait_for 'not kill -0 $SUPERVISOR 2>/dev/null'
		keep "$(sed -n 's/ sum=[^ ]*$//; s/ maps=/ from-workers=2 from-servers=1 moved=1&/p' run/state/kept)"
		sed -i "/$lacks/d" run/state/job.log
		begin "again$((n++))"
		wait_for 'running && not is_kept scale from-workers'
		[ "$(logged '^scale workers=2 servers=2 from-workers=2 from-servers=1 change=1 ')" = 1 ]
		[ "$(logged '^scaled workers=2 servers=2 from-workers=2 from-servers=1 change=1 ')" = 1 ]
	done
	scale --servers 1
	[ "$(logged '^scaled workers=2 servers=1 .* change=2 ')" = 1 ]
	# Without the line the numbers go on all the same: an old end is not taken for a new one.
	trainctl stop --run-dir "$T/run"
	ended $SUPERVISOR
	sed -i '/^scale /d' run/state/kept
	begin last
	wait_for running
	scale --servers 2
	[ "$(logged '^scaled workers=2 servers=2 .* change=3 ')" = 1 ]
	let_go
	audited last.out
}

@test "scale: the end of a change can't be written down: it is in the log once, and answered when it can" {
	cat >launch <<-END
	#!/bin/sh
	case "\$*" in
	*'--id w2 '*) until [ -e "$T/go" ]; do sleep 0.1; done ;;
	esac
	exec "\$@"
	END
	chmod +x launch
	begin_scaled "LAUNCH_WORKER=$T/launch"
	start up scale --workers 3
	wait_for '[ "$(logged "^scale workers=3 ")" = 1 ]'
	rm run/state/kept
	mkdir run/state/kept
	touch go
	wait_for '[ "$(logged "^retry .*can.t%20be%20written%20down\|^retry .*can.t be written down")" -ge 2 ]'
	[ "$(logged '^scaled ')" = 1 ]
	kill -0 $PID
	wait_for 'status | grep -q "^job .* why=[^ ]*/state/kept%20can"'
	rmdir run/state/kept
	ended $PID
	[ "$status" -eq 0 ]
	[ "$(logged '^scaled workers=3 .* change=1 ')" = 1 ]
	let_go
	audited
}

@test "scale: a server dies while parts move: all go back, and then there are as many as wanted" {
	begin_scaled SERVERS=1 CHECKPOINT=0.3
	for round in 1 2; do
		start up scale --servers 3
		up=$PID
		wait_for '[ "$(logged "^scale workers=2 servers=3 ")" = $round ]'
		kill -9 "$(pid_of "ps$((round % 3))")" || true
		ended $up
		[ "$status" -eq 0 ]
		wait_for '[ "$(servers)" = "ps0 ps1 ps2 " ]'
		further
		start down scale --servers 1
		down=$PID
		wait_for '[ "$(logged "^scale workers=2 servers=1 ")" = $round ]'
		kill -9 "$(pid_of ps0)" || true
		ended $down
		[ "$status" -eq 0 ]
		wait_for '[ "$(servers)" = "ps0 " ]'
		further
	done
	let_go
	audited
}

@test "scale: new nodes that can't start: the job goes on with those there were" {
	cat >launch <<-'END'
	#!/bin/sh
	case "$*" in
	*/ps1.sock*--part\ 1/*) exit 78 ;;
	*'--id w2 '*) exit 78 ;;
	esac
	exec "$@"
	END
	chmod +x launch
	begin_scaled SERVERS=1 "LAUNCH_SERVER=$T/launch" "LAUNCH_WORKER=$T/launch"
	run -1 scale --servers 2
	echo "$output"
	[[ $output == *"not-scaled: ps1: exit status 78"* ]]
	[ "$(servers)" = "ps0 " ]
	run -1 scale --workers 4
	[[ $output == *"not-scaled: w2: exit status 78"* ]]
	[ "$(workers)" = "w0 w1 " ]
	scale --workers 1
	[ "$(workers)" = "w0 " ]
	let_go
	audited
	[ "$(logged '^rollback ')" = 0 ]
}

@test "scale: of two new workers one is up and the other fails again and again: both go, the job goes on" {
	cat >launch <<-'END'
	#!/bin/sh
	case "$*" in
	*'--id w3 '*)
		while [ ! -e fail ]; do sleep 0.05; done
		exit 75 ;;
	esac
	exec "$@"
	END
	chmod +x launch
	begin_scaled SERVERS=1 RESTARTS=2 "LAUNCH_WORKER=$T/launch"
	start up scale --workers 4 --servers 2
	wait_for 'in_status " id=w2 state=up "'
	touch fail
	ended $PID
	[ "$status" -eq 1 ]
	# Servers came all the same; that hides nothing.
	grep -q 'not-scaled: w3: exit status 75' up.err
	wait_for '[ "$(workers)" = "w0 w1 " ]'
	[ "$(servers)" = "ps0 ps1 " ]
	is_kept scale ' workers=2 servers=2 '
	rm launch fail
	printf '#!/bin/sh\nexec "$@"\n' >launch
	chmod +x launch
	scale --workers 4
	all_up 4
	let_go
	audited
}

@test "scale: SYNC=allreduce has workers, and no servers" {
	begin_scaled SYNC=allreduce
	run -1 scale --servers 2
	[[ $output == *"no-servers: this job has no parameter servers"* ]]
	scale --workers 4
	all_up 4
	scale --workers 1
	[ "$(workers)" = "w0 " ]
	trainctl stop --run-dir "$T/run"
	ended $SUPERVISOR
	begin second
	wait_for '[ "$(workers)" = "w0 " ]'
	grep -q 'goes on with WORKERS=1, as it was scaled; the job file has 2$' second.err
	let_go
	audited second.out
}

@test "scale: a solution decides meanwhile, and lb-bsp shares at every barrier" {
	for solution in pace lb-bsp; do
		begin_scaled "SOLUTION=$solution,least:16,predict:ema,every:0.2" MONITOR=short:1,long:2
		scale --workers 4 --servers 3
		run -1 scale --workers 5
		[[ $output == *"no-room: BATCH=64 is less than SOLUTION=least:16 samples for each of 5 workers"* ]]
		scale --workers 1
		scale --workers 3 --servers 1
		[ "$(workers)" = "w0 w1 w2 " ]
		[ "$(servers)" = "ps0 " ]
		let_go
		audited
		[ "$(logged 'node records; skipped')" = 0 ]
		rm -rf run
	done
}

@test "scale: trainers of one's own: those without parameters come and go" {
	data 400
	printf '%s\n' JOB=each "DATA=$T/d.csv" LABEL=y DENSE=a SPARSE=b BATCH=8,shard:1 WORKERS=2 EPOCHS=1 \
		TRAINER_KIND=rows "TRAINER='while read -r row; do while [ -e \"$T/wait\" ]; do sleep 0.05; done; echo \"\$row\"; done >>$T/trained'" >job.env
	touch wait
	begin first
	wait_for 'all_up 2'
	run -1 scale --servers 2
	[[ $output == *"no-servers: this job has no parameter servers"* ]]
	scale --workers 4
	[ "$(workers)" = "w0 w1 w2 w3 " ]
	start down scale --workers 1
	rm wait
	ended $SUPERVISOR
	[ "$status" -eq 0 ]
	[ "$(summary first.out | field samples)" = 400 ]
	[ "$(sort -u trained | wc -l)" = "$(tail -n +2 d.csv | sort -u | wc -l)" ]
	printf '%s\n' JOB=agents SAMPLES=100 WORKERS=2 BATCH=8 TRAINER=cat >job.env
	rm -rf run
	printf '%s\n' JOB=agents SAMPLES=100 WORKERS=2 BATCH=8 "TRAINER='sleep 100'" >job.env
	begin second
	wait_for 'in_status "^node role=worker "'
	run -1 scale --workers 3
	[[ $output == *"trainers: TRAINER_KIND=loop: trainers have parameters"* ]]
}

@test "scale: a server of which more is asked gives some of it away, when somebody asks" {
	# Few keys, some of them in most rows: more is asked of one server.
	awk 'BEGIN { print "y,a,b"; srand(3); for (i = 0; i < 2000; i++) { a = int(100 * rand())
		print (a > 70) "," a ",c" int(12 * rand() * rand()) } }' >d.csv
	job WORKERS=2 SERVERS=2 EPOCHS=20 BATCH=16,shard:1 METRICS=./
	slow 400
	begin first
	wait_for 'running && came_to 3200'
	run trainctl rebalance --run-dir "$T/run"
	[ "$status" -eq 0 ]
	[[ $output == "ok busiest=ps"[01]" peak=1."*,1*" moved-bytes="[1-9]*" stall="* ]]
	grep -q '^rebalanced id=ps[01] .* moved-bytes=[1-9].* reason=asked%20for ' run/state/job.log
	is_kept scale ' maps=1 '
	# What it does next starts from there.
	trainctl scale --servers 3 --run-dir "$T/run"
	trainctl scale --servers 1 --run-dir "$T/run"
	run trainctl rebalance --run-dir "$T/run"
	[ "$status" -eq 1 ]
	[[ $output == *"one-server: one server has all parameters"* ]]
	rm -rf drag
	ended "$SUPERVISOR"
	[ "$status" -eq 0 ]
	grep -q "^summary .* samples=40000 " first.out
	# Who looks at it from outside sees that, too.
	grep -q '^paceline_job_scaled_total{job_name="tiny"} 2$' tiny.prom
	grep -q '^paceline_job_rebalances_total{job_name="tiny"} 1$' tiny.prom
	grep -q '^paceline_job_nodes_wanted{job_name="tiny",role="server"} 1$' tiny.prom
	trainctl report --run-dir "$T/run" --text | tr -s ' \n' ' ' >text
	grep -q 'How servers shared their work .* ps[01] had 1\.' text
	grep -q 'How its nodes changed .* from 2 to 3 servers; it took .* of parameters moved, workers waited .* at most asked for .* from 3 to 1 servers; ' text
	run trainctl rebalance --run-dir "$T/run"
	[ "$status" -eq 69 ]
}
