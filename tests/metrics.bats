load helper
. "$BATS_TEST_DIRNAME/cluster/hosts.bash"

teardown_more() { hosts_down; }

# What a job tells Prometheus: its page is read by a strict parser (metrics.awk), and by promtool where
# there is one.

# strict FILE: it is a page, letter by letter.
strict() {
	awk -f "$PACELINE_ROOT/tests/metrics.awk" "$1" || return
	if command -v promtool >/dev/null; then promtool check metrics <"$1"; fi
}

# value FILE NAME [LABEL="VALUE"]...: of that sample
value() {
	local file=$1 name=$2
	shift 2
	awk -v name="$name" -v labels="$*" '
		index($0, name "{") == 1 {
			n = split(labels, label, " ")
			for (i = 1; i <= n; i++) if (!index($0, label[i])) next
			print $NF
		}' "$file"
}

# get PORT PATH: by HTTP, the whole answer.
get() { printf 'GET %s HTTP/1.0\r\n\r\n' "$2" | socat -t 300 - "TCP4:127.0.0.1:$1"; }
# page PORT FILE
page() {
	get "$1" /metrics | sed '1,/^\r$/d' >"$2"
	[ -s "$2" ]
}
# port FILE: on which its metrics are
port() { sed -n 's|.*metrics are at http://127.0.0.1:\([0-9]*\)/metrics$|\1|p' "$1"; }

# trained FILE ID: the page knows how fast it is, and that samples are done.
trained() {
	[ -n "$(value "$1" paceline_node_bpt_ratio "id=\"$2\"" 'window="short"')" ] &&
		[ "$(value "$1" paceline_job_samples_done)" -gt 0 ]
}


@test "a job's page: in a file that all may read, by HTTP, and on a Unix socket" {
	data 2048 # whole batches only: the last one's size is on the page
	job EPOCHS=1000 METRICS="'./ unix:run.sock http://:0'"
	slow 2000
	umask 077
	begin first
	umask 022
	wait_for '[ -n "$(port first.err)" ]'
	grep -q "^trainctl: metrics are in $T/tiny.prom$" first.err
	grep -q "^trainctl: metrics are at /metrics of unix:$T/run.sock$" first.err
	[ "$(stat -c %a tiny.prom)" = 644 ]
	[ "$(stat -c %a run.sock)" = 660 ]
	# Its addresses are told before it answers.
	wait_for 'status | grep -qF " metrics=$T/tiny.prom%20unix:$T/run.sock%20http://127.0.0.1:$(port first.err) "'
	wait_for 'page "$(port first.err)" now.prom && trained now.prom w0 && trained now.prom w1'
	strict now.prom
	[ "$(value now.prom paceline_job_state 'state="running"')" = 1 ]
	[ "$(value now.prom paceline_job_phase 'phase="running"')" = 1 ]
	[ "$(value now.prom paceline_job_phase 'phase="over"')" = 0 ]
	[ "$(value now.prom paceline_job_samples)" = 2048000 ]
	[ "$(value now.prom paceline_job_samples_done)" -gt 0 ]
	[ "$(value now.prom paceline_job_checkpoint_iteration)" = 0 ]
	[ "$(value now.prom paceline_node_up 'role="worker" id="w0"')" = 1 ]
	[ "$(value now.prom paceline_node_up 'role="shardd"')" = 1 ]
	[ "$(value now.prom paceline_node_stage 'id="w0" stage="up"')" = 1 ]
	[ "$(value now.prom paceline_node_stage 'id="w0" stage="off"')" = 0 ]
	[ "$(value now.prom paceline_node_batch_samples 'id="w0"')" = 32 ]
	[ "$(value now.prom paceline_node_samples_total 'id="w0"')" -gt 0 ]
	[ "$(value now.prom paceline_node_batches_total 'id="w0"')" -gt 0 ]
	for activity in compute comm rows wait; do
		[ -n "$(value now.prom paceline_node_time_seconds_total 'id="w0"' "activity=\"$activity\"")" ]
	done
	grep -q '^paceline_job_info{job_name="tiny",model="lr",optimizer="adagrad",sync="bsp",solution="none",' now.prom
	printf 'GET /metrics HTTP/1.0\r\n\r\n' | socat -t 300 - UNIX-CONNECT:run.sock | grep -q '^paceline_job_epochs{job_name="tiny"} 1000$'
	run get "$(port first.err)" /
	[[ $output == "HTTP/1.0 404 Not Found"*"metrics of this training job are at /metrics." ]]
	# Numbers that only grow: a restart, decisions by hand.
	strike w1
	wait_for 'page "$(port first.err)" now.prom; [ "$(value now.prom paceline_node_restarts_total id=\"w1\")" = 1 ]'
	[ "$(value now.prom paceline_job_restarts_total)" = 1 ]
	echo 'action kind=adjust-bs id=w0 size=40' | trainctl apply --run-dir run
	echo 'action kind=kill-restart role=worker id=w9' | run -1 trainctl apply --run-dir run
	trainctl checkpoint --run-dir run
	wait_for 'page "$(port first.err)" now.prom; [ "$(value now.prom paceline_node_batch_samples id=\"w0\")" = 40 ]'
	[ "$(value now.prom paceline_job_actions_total 'kind="adjust-bs"')" = 1 ]
	[ "$(value now.prom paceline_job_actions_total 'kind="kill-restart"')" = 0 ]
	[ "$(value now.prom paceline_job_actions_refused_total 'kind="kill-restart"')" = 1 ]
	[ "$(value now.prom paceline_job_checkpoints_total)" = 2 ]
	strike ps0
	wait_for 'page "$(port first.err)" now.prom; [ "$(value now.prom paceline_job_rollbacks_total)" = 1 ]'
	strict now.prom
	# The file of a job that runs says the same, and is soon of now.
	wait_for '[ "$(value tiny.prom paceline_job_rollbacks_total)" = 1 ]'
	strict tiny.prom
	trainctl stop --run-dir run
	ended $SUPERVISOR
	[ "$status" -eq 75 ]
	strict tiny.prom
	[ "$(value tiny.prom paceline_job_state 'state="stopped"')" = 1 ]
	[ "$(value tiny.prom paceline_job_state 'state="running"')" = 0 ]
	[ "$(value tiny.prom paceline_job_phase 'phase="over"')" = 1 ]
	[ -n "$(value tiny.prom paceline_job_end_timestamp_seconds)" ]
	not grep -q '^paceline_node_' tiny.prom
	not grep -q '^paceline_job_\(left_seconds\|samples_per_second\)' tiny.prom
	[ ! -e run.sock ]
}

@test "the file of a job that has ended says how" {
	job METRICS=tiny.prom TEST=d.csv
	run -0 run_job
	strict tiny.prom
	[ "$(value tiny.prom paceline_job_state 'state="done"')" = 1 ]
	[ "$(value tiny.prom paceline_job_samples_done)" = 2000 ]
	[ "$(value tiny.prom paceline_job_shards 'state="todo"')" = 0 ]
	[ -n "$(value tiny.prom paceline_job_auc)" ]
	job METRICS=tiny.prom RESTARTS=0 EPOCHS=1000
	slow 2000
	begin second --fresh
	wait_for running
	strike w0
	ended $SUPERVISOR
	[ "$status" -ne 0 ]
	[ "$(value tiny.prom paceline_job_state 'state="failed"')" = 1 ]
	[ "$(value tiny.prom paceline_job_state 'state="done"')" = 0 ]
}

@test "what METRICS can't be is said before anything is started" {
	job METRICS=metrics.txt
	run -78 run_job
	[[ $output == *"job.env:"*": METRICS: 'metrics.txt' is none of DIR/NAME.prom, DIR/, unix:SOCKET or http://[ADDRESS]:PORT" ]]
	job
	run -78 run_job --set METRICS=http://9100
	[[ $output == *"'http://9100' does not end with a port"* ]]
	run -73 run_job --set METRICS=no/such/tiny.prom
	[[ $output == *"$T/no/such/tiny.prom: METRICS: there is no directory $T/no/such: No such file"* ]]
	mkdir dir.prom
	run -73 run_job --set METRICS=dir.prom
	[[ $output == *"dir.prom: exists, and is not a regular file"* ]]
	start other bpt-monitor -s m.sock
	ready m.sock
	run -75 run_job --set METRICS=unix:m.sock
	[[ $output == *"$T/m.sock: another instance runs"* ]]
	start taken socat TCP4-LISTEN:0,bind=127.0.0.1,fork,reuseaddr SYSTEM:true
	wait_for '[ -n "$(ss_port)" ]'
	run -75 run_job --set METRICS="http://:$(ss_port)"
	[[ $output == *"http://127.0.0.1:$(ss_port): another program uses this port"* ]]
	[ -z "$(ls run/state/nodes)" ]
}

# ss_port: that $PID listens at, from the kernel's table.
ss_port() {
	local inode
	for inode in $(ls -l "/proc/$PID/fd" 2>/dev/null | sed -n 's/.*socket:\[\([0-9]*\)\]$/\1/p'); do
		awk -v inode="$inode" '$4 == "0A" && $10 == inode { split($2, a, ":"); print a[2] }' /proc/net/tcp |
			while read -r hex; do echo $((16#$hex)); done
	done
}

@test "a port in use does not keep a supervisor from nodes that run" {
	job EPOCHS=1000 METRICS=http://:0
	slow 2000
	begin first
	wait_for 'running && [ -n "$(port first.err)" ]'
	taken=$(port first.err)
	kill -9 $SUPERVISOR
	ended $SUPERVISOR
	start other socat "TCP4-LISTEN:$taken,bind=127.0.0.1,fork,reuseaddr" SYSTEM:true
	other=$PID
	wait_for '[ -n "$(ss_port)" ]'
	begin second --set METRICS="http://:$taken"
	wait_for running
	grep -q "^trainctl: metrics: http://127.0.0.1:$taken: another program uses this port; tried again" second.err
	kill -9 "$other"
	wait_for '[ "$(port second.err)" = '"$taken"' ]'
	page "$taken" now.prom
	strict now.prom
	trainctl stop --run-dir run
}

@test "other hosts: none connects unless METRICS says so; whoever does has the page, whatever he asks for" {
	hosts_up -n 2
	job EPOCHS=1000 METRICS="'http://:9101 http://0.0.0.0:9102'"
	slow 2000
	start first on h0 trainctl run job.env --run-dir "$T/run"
	asked() { on h1 socat -t 300 - TCP:h0:9102; } # from another host
	wait_for 'printf "GET /metrics HTTP/1.0\r\n\r\n" | asked >now && grep -q "^paceline_node_up.*id=\"w1\"" now'
	not on h1 socat -u /dev/null TCP:h0:9101,connect-timeout=10
	on h0 socat -u /dev/null TCP:127.0.0.1:9101
	local hostile wrong=0
	for hostile in 'GET /../../../../etc/passwd HTTP/1.0' 'GET /%2e%2e/state/job.env HTTP/1.1' 'POST /stop HTTP/1.0' \
		'DELETE /metrics HTTP/1.0' 'GET /metrics HTTP/9.9' 'stop' '\0\1\377' \
		'POST /metrics HTTP/1.1\r\nHost: h0\r\nContent-Length: 99999999999' "GET /$(printf '%020000d' 0) HTTP/1.0" \
		"GET /metrics HTTP/1.0\r\nX: $(printf '%020000d' 0)"; do
		printf "$hostile\r\n\r\n" | asked >said 2>noise || true
		head -c 12 said | grep -qaE '^HTTP/1\.[01] [45]' || { wrong=1; echo "$hostile: $(head -c 200 said)" | cut -c1-300; }
	done
	[ $wrong = 0 ]
	printf 'GET /metrics HTTP/1.0\r\n\r\n' | asked | sed '1,/^\r$/d' >now
	strict now
	[ "$(value now paceline_job_state 'state="running"')" = 1 ]
	on h0 trainctl stop --run-dir "$T/run"
}

@test "labels are what they are, whatever stands in them" {
	mkdir $'a "b\\\xff'
	printf '#!/bin/sh\necho action kind=none\n' >$'a "b\\\xff/mine'
	chmod +x $'a "b\\\xff/mine'
	job METRICS=tiny.prom
	run -0 run_job --set SOLUTION=$'./a "b\\\xff/mine'
	strict tiny.prom
	grep -qF "solution=\"$T/./a \\\"b\\\\"$'\xef\xbf\xbd/mine"' tiny.prom
}

@test "bpt-monitor's page is one, too" {
	umask 077
	start monitor bpt-monitor -s m.sock --prometheus page.prom --every 0.1
	ready m.sock
	[ "$(stat -c %a page.prom)" = 644 ]
	printf '%s\n' 'device role=worker id=w0 type=v100 speed=1200 saturation=32 max=4000' \
		'bpt role=worker id=w0 iter=7 time=0.5 size=64 accum=2 cpu=0.25' \
		'info name=pending value=7' | socat -t 300 - UNIX-CONNECT:m.sock >/dev/null
	wait_for 'grep -q "^paceline_job_iteration 7$" page.prom'
	strict page.prom
}

# metrics_of FILE...: the names of all metrics that stand in it
metrics_of() { grep -oh 'paceline_\(job\|node\|info\|page\)_[a-z_]*[a-z]' "$@" | sort -u; }

@test "the page of the manual, the board and the alerts name what there is" {
	job METRICS=tiny.prom EPOCHS=1000
	slow 2000
	begin first
	wait_for running
	start monitor bpt-monitor -s m.sock --prometheus page.prom
	ready m.sock
	cp tiny.prom now.prom
	wait_for 'cp tiny.prom now.prom; grep -q "^paceline_node_up{" now.prom'
	sed -n 's/^# TYPE \([^ ]*\).*/\1/p' now.prom page.prom | sort -u >there
	metrics_of "$PACELINE_ROOT/man/paceline-metrics.5" | diff - there
	metrics_of "$PACELINE_ROOT/scripts/examples/metrics/"* | comm -23 - there >unknown
	[ ! -s unknown ]
	trainctl stop --run-dir run
}

@test "the board is JSON, the alerts are rules" {
	command -v jq >/dev/null || skip "no jq here"
	metrics=$PACELINE_ROOT/scripts/examples/metrics
	jq -e '.panels | length > 5' "$metrics/paceline-board.json"
	[ "$(jq -r '[.panels[] | select(.type != "row") | .targets | length] | min' "$metrics/paceline-board.json")" -ge 1 ]
	[ "$(jq -r '[.panels[].id] | length - (unique | length)' "$metrics/paceline-board.json")" = 0 ]
	[ "$(grep -c '^ *- alert: ' "$metrics/paceline-alerts.yml")" -ge 5 ]
	[ "$(grep -c '^ *expr: ' "$metrics/paceline-alerts.yml")" = "$(grep -c '^ *- alert: ' "$metrics/paceline-alerts.yml")" ]
	command -v promtool >/dev/null || skip "no promtool here: the rules are not checked any further"
	promtool check rules "$metrics/paceline-alerts.yml"
	promtool test rules "$metrics/paceline-alerts-test.yml"
}
