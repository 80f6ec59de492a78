# trainctl and jobs of several hosts (namespaces of this machine): where nodes run, what travels.
load helper
. "$BATS_TEST_DIRNAME/cluster/far.bash"

far_job() { far_file 400 SERVERS=2 CHECKPOINT=0.5 "$@"; } # KEY=VALUE...

@test "no shared files: parts of checkpoints travel, and a server's death goes back to them; exact" {
	far_job EPOCHS=20
	# What could not be removed there at once is swept later.
	printf '#!/bin/sh\n[ -e "%s/swept" ] || exit 1\nexec /bin/rm "$@"\n' "$T" >"$HOSTS/h1/bin/rm"
	chmod +x "$HOSTS/h1/bin/rm"
	go first
	wait_for 'came_to 500'
	[ "$(logged '^host name=h2 state=there launcher=ssh .* sees-state=0 trains=1 ')" -eq 1 ]
	[ "$(logged '^event role=server id=ps1 kind=ready host=h1 ')" -eq 1 ]
	[ "$(logged '^event role=worker id=w2 kind=ready host=h2 ')" -eq 1 ]
	wait_for '[ "$(logged "^part path=.*/part-1 from=h1 part-bytes=")" -ge 2 ]'
	[ -n "$(ls "$HOSTS/h1/state/checkpoints")" ]
	touch swept
	on h1 pkill -9 -f 'ps-server --id ps1 '
	wait_for '[ "$(logged "^rollback ")" -eq 1 ]'
	wait_for '[ "$(logged "^event role=server id=ps1 kind=ready host=h1 ")" -eq 2 ]'
	wait_for '[ "$(logged "^phase name=running ")" -eq 2 ]'
	# Nobody tells the next trainctl what lies there.
	on h0 pkill -9 -x trainctl
	wait "$JOB_PID" || true
	go second
	wait_for '[ "$(logged "^phase name=running ")" -eq 3 ]'
	to_end
	# What was brought or written there is not left there, nor is any socket.
	[ -z "$(ls "$HOSTS/h1/state/checkpoints")" ]
	for host in h0 h1 h2; do
		[ -z "$(on $host find /tmp/run -type s)" ]
	done
}

# bats test_tags=long
@test "the machine of trainctl trains nothing: lead and daemons are there, and a replica on each other" {
	far_job EPOCHS=5 SYNC=allreduce HOSTS=h1,h2
	go first
	wait_for 'came_to 300'
	run status
	[[ $output == *"host name=h0 state=there launcher=local "* ]]
	[[ $output == *"node role=lead id=lead state=up "*" host=h0"* ]]
	[[ $output == *"node role=replica id=r0 state=up "*" host=h1"* ]]
	[[ $output == *"node role=replica id=r1 state=up "*" host=h2"* ]]
	[[ $output == *"node role=worker id=w0 state=up "*" host=h1"* ]]
	to_end
	[ "$(logged '^part path=.*/part-0 from=h1 ')" -ge 1 ]
}

@test "a host dies; who was placed elsewhere is found there by the next trainctl; exact" {
	far_job EPOCHS=40 SYNC=allreduce FABRIC=mlfabric
	go first
	wait_for 'came_to 300'
	hosts_kill h2
	wait_for '[ "$(logged "^host name=h2 state=gone ")" -eq 1 ]'
	wait_for '[ "$(logged "^event role=worker id=w2 kind=ready host=h0 ")" -eq 1 ]'
	on h0 pkill -9 -x trainctl
	wait "$JOB_PID" || true
	go second
	wait_for '[ "$(logged "^event role=worker id=w2 kind=adopt host=h0 ")" -eq 1 ]'
	wait_for 'in_status "^job .* state=running "'
	status | grep -q '^host name=h2 state=gone '
	to_end
	[ "$(logged '^rollback ')" -eq 0 ]
}

@test "a server and a worker that were given up and live on there are ended by the next ones; exact" {
	far_job EPOCHS=20
	go stranded
	wait_for 'came_to 500'
	STRANDED=
	stranded h1 ps1 w1
	wait_for '[ "$(logged "^event role=server id=ps1 kind=ready host=h1 ")" -ge 2 ]'
	wait_for '[ "$(logged "^event role=worker id=w1 kind=ready host=h1 ")" -ge 2 ]'
	wait_for 'not on h1 ps -o pid= -p $STRANDED' # the old one may answer until the new one has come
	to_end
	[ "$(logged '^event role=server id=ps1 kind=exit .* status=75 ')" -eq 0 ]
	grep -q "^node-host: h1: process [0-9]* had been given up here, and lived on: killed, with what it ran" "$STATE/logs/ps1.log"
}

# bats test_tags=long
@test "the machine of trainctl dies without a word: nothing of the job is left on the other hosts" {
	far_job EPOCHS=40
	go first
	wait_for 'came_to 300'
	on h1 pkill -STOP -x fabricd # or it would ask for the others, and be told
	hosts_link h1 down
	hosts_link h2 down
	hosts_kill h0
	hosts_boot h0
	hosts_link h1 up
	hosts_link h2 up
	for host in h1 h2; do
		on $host true
		wait_for '[ -z "$(on $host pgrep -x "orted|fabricd|worker|ps-server")" ]'
	done
}

@test "what is kept of the hosts is older than the fabric that runs: another one is started; exact" {
	far_job EPOCHS=20 SYNC=allreduce
	go first
	wait_for 'came_to 300'
	wait_for '[ "$(logged "^event role=replica id=r2 kind=serving host=h2 ")" -eq 1 ]'
	cp "$STATE/kept" before
	hosts_kill h2
	wait_for '[ "$(logged "^event role=worker id=w2 kind=ready host=h0 ")" -eq 1 ]'
	on h0 pkill -9 -x trainctl
	wait "$JOB_PID" || true
	hosts_boot h2
	cp before "$STATE/kept"
	go second
	wait_for '[ "$(logged "^event role=replica id=r2 kind=serving host=h2 ")" -eq 2 ]'
	to_end
	[ "$(logged '^rollback ')" -eq 0 ]
}

# Sets half, the checkpoint whose part is held up; one that has just come is let go.
stop_on_the_way() {
	on h0 pkill -STOP -f "node-host .*[-]-fetch /" || return 1
	half=$(on h0 pgrep -a -f "node-host .*[-]-fetch /" | sed -n 's/.*--fetch \([^=]*\)\/part-1=.*/\1/p')
	[ -z "$half" ] || [ -e "$STATE/checkpoints/${half##*/}/part-1" ] || return 0
	on h0 pkill -CONT -f "node-host .*[-]-fetch /" || true
	return 1
}

@test "a server dies while a part is on its way: that checkpoint is none; exact" {
	far_job EPOCHS=20
	go first
	wait_for 'came_to 300'
	wait_for '[ "$(logged "^part path=.*/part-1 from=h1 ")" -ge 1 ]'
	# Directories that nodes need were made there.
	[ -d "$HOSTS/h1/state/index" ]
	[ -d "$HOSTS/h1/state/spill" ]
	wait_for stop_on_the_way
	on h1 pkill -9 -f 'ps-server --id ps1 '
	wait_for '[ "$(logged "^phase name=running ")" -eq 2 ]'
	[ ! -e "$STATE/checkpoints/${half##*/}" ]
	[ "$(logged "^rollback ")" -eq 1 ]
	to_end
	[ "$(logged "^checkpoint path=$half ")" -eq 0 ]
	[ -z "$(ls "$HOSTS/h1/state/checkpoints")" ]
}

# bats test_tags=long
@test "a part that is not what was written makes no checkpoint" {
	local bin=${PACELINE_BIN:-$PACELINE_ROOT/build/bin}
	far_job EPOCHS=2
	cp -r "$bin" kit
	rm kit/ckpt
	printf '#!/bin/sh\nexit 1\n' >kit/ckpt # who compares says no
	chmod +x kit/ckpt
	go first "$T/kit/trainctl"
	wait_for 'grep -qs "part-1, as h1 has it, is not what was written (ckpt verify: exit status 1)" "$STATE/job.log"'
	[ "$(logged "^checkpoint path=")" -eq 0 ]
	cp "$bin/ckpt" kit/new
	mv kit/new kit/ckpt
	wait_for 'came_to 1'
	to_end
}

# bats test_tags=long
@test "what workers learn on other hosts comes here; what was brought for nothing is removed there at the end" {
	far_job EPOCHS=1000 SOLUTION=lb-bsp RESTARTS=rollbacks:1 \
		"CHECKPOINT=end,memory:$(readlink -f "$T")/hosts/local/memory"
	go first
	wait_for 'came_to 500'
	[ ! -e "$STATE/predict-w1" ]
	# The first rollback takes its checkpoint there; nothing is left at the end of a job that fails.
	on h1 pkill -9 -f 'ps-server --id ps1 '
	wait_for '[ "$(logged "^phase name=running ")" -eq 2 ]'
	[ -e "$HOSTS/h1/state/checkpoints/000001/part-1" ]
	wait_for 'find "$HOSTS/h1/memory" -name "part-1.*" | grep -q .'
	wait_for '[ -e "$HOSTS/h1/state/predict-w1" ]'
	on h1 pkill -9 -f 'ps-server --id ps1 '
	ended "$JOB_PID"
	[ "$status" -ne 0 ]
	[[ $(summary first.out) == *" state=failed "* ]]
	[ -z "$(ls "$HOSTS/h1/state/checkpoints")" ]
	[ -z "$(ls "$HOSTS/h1/memory")" ]
	cmp "$STATE/predict-w1" "$HOSTS/h1/state/predict-w1"
	cmp "$STATE/predict-w2" "$HOSTS/h2/state/predict-w2"
}

@test "a host that does not answer when the job has ended is asked again: what was brought there is not left there" {
	far_job EPOCHS=10 CHECKPOINT=end
	# As if h1 were gone while the job trains, and were back just after it.
	cat >"$HOSTS/h0/bin/ssh" <<-S
		#!/bin/sh
		case " \$* " in *" h1 "*)
		    [ ! -e "$T/gone" ] || grep -q "^phase name=stopping " "$HOSTS/local/state/job.log" || exit 255 ;;
		esac
		exec $(command -v ssh) "\$@"
	S
	chmod +x "$HOSTS/h0/bin/ssh"
	go first
	wait_for 'came_to 300'
	on h1 pkill -9 -f 'ps-server --id ps1 '
	wait_for '[ "$(logged "^phase name=running ")" -eq 2 ]'
	[ -e "$HOSTS/h1/state/checkpoints/000001/part-1" ]
	touch gone
	on h1 pkill -9 -x 'ps-server|worker'
	wait_for '[ "$(logged "^host name=h1 state=gone ")" -eq 1 ]'
	wait_for '[ "$(logged "^phase name=running ")" -eq 3 ]'
	# Killed processes leave their sockets, too: a server there, unless h1's fabricd has removed it, a relay here.
	for host in h0 h1; do
		on $host perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Local => "/tmp/run/ps9.sock", Listen => 1)'
	done
	to_end
	[ -z "$(ls "$HOSTS/h1/state/checkpoints")" ]
	for host in h0 h1 h2; do
		[ -z "$(on $host find /tmp/run -type s)" ]
	done
}

@test "all see the state: sockets of what was killed on other hosts are gone when the job has ended" {
	needs_hosts
	hosts_up -s
	job HOSTS=h0,h1,h2 WORKERS=3 MODEL=audit EPOCHS=2 CHECKPOINT=end
	slow 400
	start job on h0 trainctl run "$T/job.env" --run-dir /tmp/run --state-dir "$T/state"
	JOB_PID=$PID
	wait_for 'grep -qs "^event role=worker id=w1 kind=ready host=h1 " state/job.log' || { cat job.err; return 1; }
	# As if fabricd had been killed, too, which removes what no route places there.
	on h1 perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Local => "/tmp/run/ps9.sock", Listen => 1)'
	on h1 pkill -9 -x worker
	wait_for 'grep -q "^event role=worker id=w1 kind=exit .*signal=9" state/job.log'
	rm drag/*
	ended "$JOB_PID"
	[ "$status" -eq 0 ] || { cat job.err; return 1; }
	for host in h0 h1 h2; do
		[ -z "$(on $host find /tmp/run -type s)" ]
	done
}

# bats test_tags=long
@test "the only host that has some rows does not come back: the others train theirs, and the job goes on later" {
	far_job EPOCHS=4 PARTITIONS=local BAD_HOSTS=wait:2 CHECKPOINT=end
	for host in h0 h1 h2; do
		for i in 0 1 2; do
			awk -v i=$i 'BEGIN { print "y,a,b"; for (k = 0; k < 2000; k++) if (k % 3 == i) print k % 2 "," k "," k % 7 }' \
				>"$HOSTS/$host/d$i.csv"
		done
	done
	sed -i "s#^DATA=.*#DATA=\"$HOSTS/local/d0.csv $HOSTS/local/d1.csv $HOSTS/local/d2.csv\"#" job.env
	go first
	wait_for 'came_to 300'
	hosts_kill h2
	rm drag/*
	ended "$JOB_PID"
	[ "$status" -eq 69 ]
	[[ $(summary first.out) == *" state=stopped "*" exit=69 "* ]]
	grep -q "^stop .*h2 is gone, it alone has the rows of w2, and all other rows are trained; waited 2 s" "$STATE/job.log"
	hosts_boot h2
	on h0 trainctl run "$T/job.env" --run-dir /tmp/run --state-dir "$HOSTS/local/state" >second.out 2>second.err
	[[ $(summary second.out) == *" state=done "*" samples=8000 "* ]]
	not grep -q "h2 is there again" second.err
}
