# rooms: monitor record
load helper

# value ID KEY: of that node in the snapshot on stdin.
value() {
	awk -v id="id=$1" -v key="$2=" '$1 == "node" && $3 == id {
		for (i = 2; i <= NF; i++) if (index($i, key) == 1) print substr($i, length(key) + 1) }'
}

monitor() {
	start monitor bpt-monitor -s m.sock "$@"
	ready m.sock
}

@test "usage: help and version exit 0, mistakes 64" {
	run -0 bpt-monitor --help
	[[ $output == "usage: bpt-monitor "* ]]
	run -0 bpt-monitor --version
	run -64 bpt-monitor
	[[ $output == *"needs -s SOCKET or --filter"* ]]
	run -64 bpt-monitor --filter -s x.sock
	run -64 bpt-monitor --filter --short 700
	[[ $output == *"700 is longer than --long 600"* ]]
	run -64 bpt-monitor --filter --short 0
	run -64 bpt-monitor --filter more
	run -64 bpt-monitor -s x.sock --strict
}

@test "filter: means, speeds, ratios over two windows; time is the records'" {
	cat >in <<-END
		bpt role=worker id=w0 iter=1 time=0.1 size=10 at=1000
		bpt role=worker id=w0 iter=2 time=0.3 size=50 at=1100
		bpt role=worker id=w1 iter=2 time=0.6 size=60 at=1100
		bpt role=server id=ps0 iter=2 time=0.05 size=110 at=1100
		info name=pending value=42 at=1340
		event role=worker id=w1 kind=hung at=1350
	END
	none='type= launch= device-speed= saturation= max= cpu= mem='
	split='compute-sum= comm-sum= wait-sum='
	run -0 bpt-monitor --filter <in
	[ "$output" = "job at=1350.000000 iter=2 workers=2 servers=1 short=300 long=600
node role=worker id=w0 state=up size=50 short=0.3 long=0.2 speed-short=166.666667 speed-long=150 ratio-short=0.666666667 ratio-long=0.5 samples=60 restarts=0 meant=0 up=350.000000 accum= last=1100.000000 speed-last=166.666667 $none batches=2 time-sum=0.400000 $split
node role=worker id=w1 state=hung size=60 short=0.6 long=0.6 speed-short=100 speed-long=100 ratio-short=1.33333333 ratio-long=1.5 samples=60 restarts=0 meant=0 up=0.000000 accum= last=1100.000000 speed-last=100 $none batches=1 time-sum=0.600000 $split
node role=server id=ps0 state=up size=110 short=0.05 long=0.05 speed-short=2200 speed-long=2200 ratio-short=1 ratio-long=1 samples=110 restarts=0 meant=0 up=250.000000 accum= last=1100.000000 speed-last=2200 $none batches=1 time-sum=0.050000 $split
info name=pending value=42 age=10.000000" ]
	bpt-monitor --filter --short 10 --long 20 <in | grep -q 'id=w0 state=up size=50 short= long= '
}

@test "filter: a device, and a report of several batches with the load of the node" {
	printf '%s\n' 'device role=worker id=w0 type=v100 launch=0.01 speed=1200 saturation=32 max=4000 at=9' \
		'bpt role=worker id=w0 iter=10 time=0.1 size=20 at=10 accum=2 count=9 compute=0.0625 wait=0.5 cpu=0.5 mem=0.25' \
		'bpt role=worker id=w0 iter=11 time=1.1 size=20 at=11 accum=3 cpu=0.75' >in
	run -0 bpt-monitor --filter <in
	[[ ${lines[1]} == *" short=0.2 "*" samples=200 "*" accum=3 last=11.000000 speed-last=18.1818182 type=v100 launch=0.01 device-speed=1200 saturation=32 max=4000 cpu=0.75 mem= batches=10 time-sum=2.000000 compute-sum=0.562500 comm-sum= wait-sum=4.500000" ]]
}

@test "filter: a snapshot record gives one more on the way; nothing gives an empty job" {
	printf '%s\n' 'bpt role=worker id=w0 iter=1 time=1 size=4 at=10' snapshot '' \
		'bpt role=worker id=w0 iter=2 time=3 size=4 at=11' >in
	bpt-monitor --filter <in >out
	[ "$(grep -c ^job out)" -eq 2 ]
	[ "$(value w0 short <out | xargs)" = "1 2" ]
	run -0 bpt-monitor --filter </dev/null
	[ "$output" = "job at=0.000000 iter=0 workers=0 servers=0 short=300 long=600" ]
}

@test "filter: bad input is 65 with its line; no snapshot comes of it" {
	bad() {
		printf 'info name=a value=1 at=1\n\n%s\n' "$1" >in
		run -65 --separate-stderr bpt-monitor --filter <in
		[ -z "$output" ]
		[[ $stderr == "bpt-monitor: stdin:3: "*"$2"* ]] || { echo "$1: $stderr"; false; }
	}
	bad 'bpt role=worker id=w0 iter=1 time=nan size=1 at=1' 'time='
	bad 'bpt role=worker id=w0 iter=1 time=1 size=1' 'at= is missing'
	bad 'bpt role=worker id=w0 iter=1 time=1 size=1 at=1e99' 'at='
	bad 'bpt role=worker id=w0 iter=1 time=1 size=1 at=1 cpu=much' 'cpu='
	bad 'device role=worker id=w0 type=v100 speed=1 saturation=1 at=1' 'max= is missing'
	bad 'event role=worker id=w0 kind=born at=1' "'born' is none of"
	bad 'event role=chief id=w0 kind=start at=1' "'chief' is none of"
	bad 'bpt role=worker at=1' 'id= is missing'
	bad 'Bpt' 'must begin with a-z'
	printf 'info name=a value=1 at=1' >in
	run -65 bpt-monitor --filter <in
	[[ $output == *"stdin:1: the input ends without a newline"* ]]
}

@test "filter: unknown types are passed over with a warning, or refused" {
	printf 'memo\nmemo\ninfo name=a value=1 at=1\n' >in
	run -0 --separate-stderr bpt-monitor --filter <in
	[ "${#stderr_lines[@]}" -eq 1 ]
	[[ $output == *"info name=a value=1 age=0.000000" ]]
	run -65 bpt-monitor --filter --strict <in
	[[ $output == *"stdin:1: unknown record type 'memo'"* ]]
}

@test "daemon: a conversation by hand" {
	monitor
	run -0 ask m.sock \
		'event role=worker id=w0 kind=start' \
		'event role=worker id=w0 kind=ready' \
		'bpt role=worker id=w0 iter=3 time=0.5 size=64 accum=2 compute=0.25 wait=0.125 cpu=0.5 psi-mem=0.01 throttled=0.1 own-cpu=2' \
		'bpt role=worker id=w0 iter=4 time=1.5 size=64' \
		'history id=w0 last=9' 'history id=w9' 'history id=w0 role=server'
	[ "${lines[0]} ${lines[1]} ${lines[2]} ${lines[3]}" = "ok ok ok ok" ]
	[[ ${lines[4]} == "bpt role=worker id=w0 iter=3 time=0.5 size=64 at="*" accum=2 compute=0.25 wait=0.125 cpu=0.5 psi-mem=0.01 throttled=0.1 own-cpu=2" ]]
	[ "${lines[6]}" = ok ]
	[[ ${lines[7]} == "err code=unknown-node"* ]]
	[[ ${lines[8]} == "err code=unknown-node"* ]]
	ask m.sock snapshot >out
	[ "$(value w0 short <out)" = 1 ]
	[ "$(value w0 speed-long <out)" = 64 ]
	[ "$(value w0 state <out)" = up ]
	[ "$(tail -1 out)" = ok ]
}

@test "daemon: nothing that a client sends ends it" {
	monitor
	run -0 ask m.sock 'bpt role=worker id=w0 iter=1 time=inf size=1' 'bpt' 'junk a=1' '=' \
		'event role=worker id=w0 kind=exit status=-1' 'info name=x value=%00' \
		'history id=../../x' 'history id=w0 last=0' 'snapshot bytes=5'
	[ "$(grep -c '^err code=' <<<"$output")" -ge 8 ]
	[[ $output == *"err code=unknown-request"* ]]
	printf 'snapshot\ninfo name=half value=1' | socat -t 300 - UNIX-CONNECT:m.sock >out
	[[ $(tail -1 out) == "err code=bad-request"*newline ]]
	{ printf 'info name=long value='; head -c 100000 /dev/zero | tr '\0' x; echo; } |
		socat - UNIX-CONNECT:m.sock >/dev/null || true
	head -c 65536 /dev/urandom | socat - UNIX-CONNECT:m.sock >/dev/null || true
	run -0 ask m.sock snapshot
	[[ ${lines[0]} == *" workers=0 servers=0 "* ]]
	[ "${lines[1]}" = ok ]
}

@test "daemon: a report of a client that has gone is taken all the same" {
	monitor
	kill -STOP "$PID"
	printf 'info name=%s value=1\n' a b | socat -u - UNIX-CONNECT:m.sock
	kill -CONT "$PID"
	wait_for 'ask m.sock snapshot | grep -q "^info name=b value=1"'
	ask m.sock help | grep -q '^verb name=info .* one-way=1'
	not grep -q one-way < <(ask m.sock help | grep name=snapshot)
}

@test "daemon: watch gives each record taken, with its time" {
	monitor
	mkfifo wish
	exec 9<>wish
	start watch bash -c 'exec socat -t 300 - UNIX-CONNECT:m.sock <wish 9>&-'
	echo watch >&9
	wait_for 'ask m.sock counters | grep -q "verb=watch requests=1"'
	ask m.sock 'info name=pending value=7 at=5' 'info name=bad' \
		'event role=worker id=w0 kind=start at=6' >/dev/null
	wait_for 'grep -q "^event" watch.out'
	[ "$(tail -n +2 watch.out)" = "info name=pending value=7 at=5.000000
event role=worker id=w0 kind=start at=6.000000" ]
	exec 9>&-
	kill "$PID"
	wait_for '! kill -0 $PID 2>/dev/null'
	run -0 ask m.sock 'info name=pending value=8'
	[ "$output" = ok ]
}

@test "daemon: a client whose clock is another says so once" {
	monitor
	now=$(date +%s)
	run -0 ask m.sock "clock at=$((now - 1000))" \
		"bpt role=worker id=w0 iter=1 time=1 size=2 at=$((now - 1000))"
	[[ ${lines[0]} == "ok behind=1000."* || ${lines[0]} == "ok behind=100"* ]]
	run -0 ask m.sock "clock at=$((now + 1000))" \
		"bpt role=worker id=w1 iter=1 time=1 size=2 at=$((now + 1000))"
	run -0 ask m.sock "bpt role=worker id=w2 iter=1 time=1 size=2 at=$((now - 1000))"
	ask m.sock snapshot >out
	[ "$(value w0 last <out | cut -d. -f1)" -ge "$now" ]
	[ "$(value w1 last <out | cut -d. -f1)" -ge "$now" ]
	[ "$(value w2 last <out)" = "$((now - 1000)).000000" ] # said nothing: it is as it says
	run -0 ask m.sock "clock at=x"
	[[ $output == "err code=bad-request"* ]]
}

@test "daemon: who sets the machine's clock, back or forward, hides no report" {
	set_clock 0
	monitor
	began=$(date +%s)
	run -0 ask m.sock "event role=worker id=w0 kind=start at=$began" \
		"bpt role=worker id=w0 iter=1 time=1 size=2 at=$began"
	set_clock -3600
	# One that lives on goes by the clock as it was, as the daemon does, and has said so; one that has
	# said nothing, and one that begins now, go by what it is now.
	run -0 ask m.sock "clock at=$began" "bpt role=worker id=w0 iter=2 time=2 size=2 at=$began"
	run -0 ask m.sock "bpt role=worker id=w0 iter=3 time=3 size=2 at=$(date +%s.%N)"
	now=$(date +%s.%N)
	run -0 ask m.sock "clock at=$now" "bpt role=worker id=w0 iter=4 time=4 size=2 at=$now"
	ask m.sock snapshot >out
	[ "$(value w0 short <out)" = 2.5 ]
	set_clock 86400
	run -0 ask m.sock "bpt role=worker id=w0 iter=5 time=5 size=2 at=$(date +%s.%N)"
	ask m.sock snapshot >out
	[ "$(value w0 short <out)" = 3 ]
	[ "$(value w0 last <out | cut -d. -f1)" -ge "$began" ]
	[ "$(value w0 last <out | cut -d. -f1)" -lt $((began + 86400)) ]
}

@test "daemon: a second instance is refused, the first goes on" {
	monitor
	run -75 bpt-monitor -s m.sock
	run -0 ask m.sock snapshot
}

@test "daemon: the log is complete after kill -9 and feeds the filter and the next daemon" {
	monitor --log bpt.log
	for i in 1 2 3; do ask m.sock "bpt role=worker id=w0 iter=$i time=$i size=8 at=100$i"; done
	kill -9 "$PID"
	wait_for '! kill -0 $PID 2>/dev/null'
	[ "$(bpt-monitor --filter <bpt.log | value w0 short)" = 2 ]
	printf 'bpt role=worker id=w0 iter=4 ti' >>bpt.log # torn by a power cut
	monitor --log bpt.log
	ask m.sock 'bpt role=worker id=w0 iter=4 time=6 size=8 at=1004'
	[ "$(bpt-monitor --filter <bpt.log | value w0 short)" = 3 ]
	[ "$(wc -l <bpt.log)" -eq 4 ]
}

@test "daemon: SIGHUP opens the log again" {
	monitor --log bpt.log
	ask m.sock 'info name=a value=1 at=1'
	mv bpt.log bpt.log.1
	kill -HUP "$PID"
	wait_for '[ -e bpt.log ]'
	ask m.sock 'info name=b value=2 at=2'
	[ "$(cat bpt.log.1)" = "info name=a value=1 at=1.000000" ]
	[ "$(cat bpt.log)" = "info name=b value=2 at=2.000000" ]
}

@test "daemon: a full disk under the log costs log lines only, said once" {
	monitor --log /dev/full
	run -0 ask m.sock 'info name=a value=1 at=1' 'info name=b value=2 at=2'
	[ "$output" = "ok
ok" ]
	ask m.sock 'info name=c value=1 at=1'
	[ "$(grep -c 'No space left' monitor.err)" -eq 1 ]
	run -0 ask m.sock snapshot
	[[ $output == *"info name=c "* ]]
	kill "$PID"
	wait "$PID" # status 0: said already
}

@test "daemon: Prometheus file, at start and replaced whole" {
	monitor --prometheus page.prom --every 0.1
	grep -q '^# TYPE paceline_node_bpt_seconds gauge$' page.prom
	ask m.sock 'device role=worker id=w0 type=v100 speed=1200 saturation=32 max=4000' \
		'bpt role=worker id=w0 iter=7 time=0.5 size=64 accum=2 cpu=0.25' 'info name=pending value=7' \
		'info name=words value=many'
	wait_for "grep -q '^paceline_job_iteration 7$' page.prom"
	grep -q '^paceline_node_bpt_seconds{role="worker",id="w0",window="short"} 0.5$' page.prom
	grep -q '^paceline_node_samples_total{role="worker",id="w0"} 64$' page.prom
	grep -q '^paceline_info_value{name="pending"} 7$' page.prom
	grep -q '^paceline_node_accum_steps{role="worker",id="w0"} 2$' page.prom
	grep -q '^paceline_node_last_speed_samples_per_second{role="worker",id="w0"} 128$' page.prom
	grep -q '^paceline_node_last{role="worker",id="w0",key="cpu"} 0.25$' page.prom
	not grep -q 'key="launch"\|key="mem"' page.prom
	grep -q '^paceline_node_device{role="worker",id="w0",type="v100",key="max"} 4000$' page.prom
	not grep -q 'info_value{name="words"}' page.prom
	[ "$(grep -cv '^#\|^paceline_[a-z_]*\({[a-z]*="[^"]*"\(,[a-z]*="[^"]*"\)*}\)\? [-+.e0-9]*$' page.prom)" -eq 0 ]
	run -73 bpt-monitor -s other.sock --prometheus no/such/page.prom
	run -73 bpt-monitor -s other.sock --log no/such/log
}

@test "daemon: SIGTERM ends it with 0 and takes the socket away" {
	monitor
	kill "$PID"
	wait "$PID"
	[ ! -e m.sock ]
}

@test "daemon: takes an inherited socket and tells the service manager that it is ready" {
	command -v systemd-socket-activate >/dev/null || skip "no systemd-socket-activate"
	start notify socat -u UNIX-RECV:notify.sock OPEN:told,creat,append
	wait_for '[ -S notify.sock ]'
	start monitor systemd-socket-activate -l "$T/m.sock" -E NOTIFY_SOCKET="$T/notify.sock" \
		"$(command -v bpt-monitor)" -s "$T/m.sock"
	wait_for '[ -S m.sock ]'
	run -0 ask m.sock 'info name=a value=1'
	[ "$output" = ok ]
	wait_for 'grep -q READY=1 told'
}

@test "cron: the feeders" {
	monitor
	feed=$PACELINE_ROOT/scripts/cron
	"$feed/feed-load" m.sock
	"$feed/feed-pending" m.sock printf '%s\n' 12 340 7
	run -0 ask m.sock snapshot
	[[ $output == *"info name=load-"*" value="*"info name=mem-"*"info name=pending value=340 age="* ]]
	"$feed/feed-pending" m.sock true
	run -0 ask m.sock snapshot
	[[ $output == *"info name=pending value=0 age="* ]]
	run ! "$feed/feed-pending" m.sock false
	# Slurm: who is held, or waits for another job, says nothing of the cluster.
	mkdir slurm
	cat >slurm/squeue <<-'END'
		#!/bin/sh
		ago() { date -d "$1 seconds ago" +%FT%T; }
		case "$*" in *PendingTime*) printf '%s\n' 90000 80000 100 40; exit ;; esac
		printf '%-40s%-30s\n' JobHeldUser N/A Dependency N/A BeginTime "$(ago -900)" \
			QOSMaxCpuPerUserLimit "$(ago 70000)" Resources "$(ago 100)" Priority "$(ago 40)"
	END
	chmod +x slurm/squeue
	PATH=$T/slurm:$PATH "$feed/feed-pending" m.sock
	run -0 ask m.sock snapshot
	waits=$(echo "$output" | sed -n 's/^info name=pending value=\([0-9]*\) .*/\1/p')
	[ "$waits" -ge 100 ]
	[ "$waits" -lt 70000 ]
	printf '#!/bin/sh\nexit 1\n' >slurm/squeue
	PATH=$T/slurm:$PATH run ! "$feed/feed-pending" m.sock
	printf '#!/bin/sh\n' >slurm/squeue
	PATH=$T/slurm:$PATH "$feed/feed-pending" m.sock
	run -0 ask m.sock snapshot
	[[ $output == *"info name=pending value=0 age="* ]]
	run ! "$feed/feed-load" none.sock
}
