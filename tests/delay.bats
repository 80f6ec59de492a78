# The delay of a push: how many others were committed since its worker pulled the parameters.
load helper

@test "SYNC delay: what is too stale is dropped and trained again; exact, at each server's death too" {
	job MODEL=audit EPOCHS=3 SYNC=asp,delay:2 WORKERS=4 SERVERS=2 BATCH=64,shard:2 CHECKPOINT=0.3
	slow 600
	echo 'drag speed=40' >drag/w3 # all others push several times while it trains one batch
	begin first
	wait_for 'came_to 500'
	[[ $(status) =~ $'\n'"node role=worker id=w3 "[^$'\n']*" delay-most="[0-2]" stale="[1-9] ]] ||
		wait_for '[[ $(status) =~ " id=w3 "[^$'"'\\n'"']*" stale="[1-9] ]]'
	strike ps1
	wait_for "grep -q '^rollback ' run/state/job.log"
	wait_for 'came_to 1500'
	rm drag/*
	wait $SUPERVISOR
	exact "$(summary first.out | field checkpoint)" 2000 3
	rows=$(grep '^row .* delay-most=' run/state/job.log)
	[ -n "$rows" ]
	not grep -vE ' delay-most=[0-2] ' <<<"$rows"
	run -0 trainctl report --run-dir "$T/run"
	[[ $output =~ (^|$NL)"report ".*" delay-most="[0-2]" stale=" ]]
	run -0 trainctl report --text --run-dir "$T/run"
	[[ $output == *"half of the updates"*" missed at most "*" more were dropped"* ]]
}

@test "without a bound a slow worker's delay is seen, and nothing is dropped; a barrier has none" {
	job MODEL=audit EPOCHS=20 SYNC=asp WORKERS=3 SERVERS=1 "METRICS=$T/metrics.prom"
	slow 600
	echo 'drag speed=60' >drag/w2
	begin first
	wait_for '[[ $(status) =~ "id=w2 "[^$'"'\\n'"']*" delay-most="([0-9]*)" stale=0" ]] && [ ${BASH_REMATCH[1]} -gt 2 ]'
	wait_for 'grep -q "^paceline_node_delay_units{.*id=\"w2\",quantile=\"0.95\"} [1-9]" metrics.prom'
	rm drag/*
	wait $SUPERVISOR
	exact "$(summary first.out | field checkpoint)" 2000 20
	not grep -q ' stale=[1-9]' run/state/job.log
	run -0 run_job --fresh --set SYNC=bsp
	[[ $output != *" delay="* ]]
}

@test "OPTIMIZER schedule: adadelay learns with stale gradients, and is refused where there is no delay" {
	job TEST="$T/d.csv" EPOCHS=20 SYNC=asp WORKERS=3 OPTIMIZER=sgd,lr:20,schedule:adadelay,beta:2
	run -0 run_job
	[[ $output =~ " auc=0.9" ]]
	local wrong
	for wrong in 'sgd,lr:1,schedule:adadelay SYNC=bsp=schedule:sqrt is the same' \
		'sgd,lr:1,schedule:adadelay SYNC=allreduce=schedule:sqrt is the same' \
		'sgd,lr:auto,schedule:adadelay SYNC=asp=give lr' 'adam,schedule:sqrt SYNC=asp=adam has constant, step and cosine' \
		'ftrl,warmup:3 SYNC=asp=which is of sgd|momentum|adagrad|adam' 'sgd,schedule:step,beta:0 SYNC=bsp=step needs steps' \
		'sgd,schedule:constant,beta:0,factor:0.5 SYNC=bsp=factor: is for the schedules' \
		'adagrad,schedule:sqrt SYNC=asp=by themselves' 'sgd,schedule:constant,beta:1 SYNC=asp=beta: is for'; do
		local set=${wrong%=*}
		run -78 trainctl check job.env --set "OPTIMIZER=${set% *}" --set "${set#* }"
		[[ $output == "trainctl: --set: "* ]]
		[[ $output == *"${wrong##*=}"* ]]
	done
	trainctl check job.env --set OPTIMIZER=momentum,lr:1,schedule:sqrt --set SYNC=bsp
	trainctl check job.env --set OPTIMIZER=adagrad,schedule:adadelay,beta:1 --set SYNC=ssp:2
}

@test "SYNC delay is for ssp, asp and allreduce, and for models of the kit" {
	job
	for wrong in 'bsp,delay:3=SYNC=bsp has no delay, which is of asp|ssp|allreduce' \
		'allreduce,delay:2=SYNC=allreduce,delay:N: while workers compute one batch, one sum is made, so N is 1' \
		'allreduce,late:1.5=SYNC late drops what a worker computes while the sum before is made' \
		'asp,delay:3,late:2=SYNC=asp has no late, which is of allreduce' \
		'allreduce,delay:1,late:0.5=SYNC late: 0.5 is not in 1..' \
		"asp,delay:0=SYNC delay: 0 is not in 1..1000000000" \
		'asp,delay:x=SYNC delay: ' 'asp,delay:-1=SYNC delay: '; do
		run -78 trainctl check job.env --set "SYNC=${wrong%%=*}"
		[[ $output == *"${wrong#*=}"* ]]
	done
	run -78 trainctl check job.env --set SYNC=asp,delay:3 --set TRAINER=true --set SAMPLES=10 --set DATA= --set LABEL= --set DENSE= --set SPARSE=
	[[ $output == *"can't be dropped"* ]]
	run -0 trainctl check job.env --set SYNC=ssp:2,delay:3
	[[ $output != *"smaller than WORKERS"* ]]
	run -0 trainctl check job.env --set SYNC=ssp:2,delay:3 --set WORKERS=4
	[[ $output == *"--set: SYNC delay is smaller than WORKERS: "* ]]
	trainctl check job.env --set SYNC=allreduce,delay:1 --set FABRIC=mlfabric
	run -64 ps-server -s x.sock --id ps0 --layout x --delay-max 3
	[[ $output == *"--delay-max: is for --sync ssp or asp"* ]]
	run -64 ps-server -s x.sock --id ps0 --layout x --late 2
	[[ $output == *"--late: is for --replicas"* ]]
	run -64 ps-server -s x.sock --id ps1 --layout x --part 1/2 --sync asp --delay-max 3
	[[ $output == *"--delay-max: is for the lead of parts"* ]]
}

# lead: what the lead of the job on hosts says of itself.
lead() { on h0 socat -t 300 - UNIX-CONNECT:/tmp/run/lead.sock <<<stat; }

@test "hosts: what is too stale is dropped before it is sent; a worker and a server killed; exact" {
	. "$BATS_TEST_DIRNAME/cluster/far.bash"
	teardown_more() { hosts_down; }
	far_file 600 EPOCHS=3 SYNC=asp,delay:2 SERVERS=2 CHECKPOINT=0.5
	echo 'drag speed=60' >drag/w1 # the others push several times while it trains one batch
	go first
	wait_for 'came_to 300'
	wait_for 'lead | grep -q " spared-bytes=[1-9]"'
	on h2 pkill -9 -f 'worker .*--id w2 '
	wait_for '[ "$(logged "^event role=worker id=w2 kind=ready ")" -eq 2 ]'
	on h1 pkill -STOP -f 'worker .*--id w1 '
	wait_for 'came_to 1000'
	on h1 pkill -CONT -f 'worker .*--id w1 '
	on h1 pkill -9 -f 'ps-server --id ps1 '
	wait_for '[ "$(logged "^rollback ")" -eq 1 ]'
	to_end
	rows=$(grep '^row .* delay-most=' "$STATE/job.log")
	[ -n "$rows" ]
	not grep -vE ' delay-most=[0-2] ' <<<"$rows"
}

@test "hosts: FABRIC=mlfabric, turns by the rates of links; the lead, a server, a worker and the fabric killed; exact" {
	. "$BATS_TEST_DIRNAME/cluster/far.bash"
	teardown_more() { hosts_down; }
	# A push of 8 kB, as what is smaller goes through at once, and there is no rate to wait for.
	far_file 600 EPOCHS=12 SYNC=asp,delay:6 FABRIC=mlfabric SERVERS=2 CHECKPOINT=0.5 MODEL=audit,counts:1
	sed -i s/^WORKERS=3/WORKERS=6/ job.env
	hosts_link h1 500kbit
	hosts_link h2 200kbit
	go first
	wait_for 'came_to 300'
	wait_for 'lead | grep -q " links=3 groups=[1-9]"'
	on h2 pkill -9 -f 'worker .*--id w2 '
	wait_for '[ "$(logged "^event role=worker id=w2 kind=ready ")" -eq 2 ]'
	on h0 pkill -9 -f 'ps-server --id lead '
	wait_for '[ "$(logged "^event role=lead id=lead kind=ready ")" -eq 2 ]'
	wait_for 'came_to 500'
	on h0 pkill -9 -f 'ps-server --id ps0 '
	wait_for '[ "$(logged "^rollback ")" -eq 1 ]'
	wait_for 'came_to 800'
	on h1 pkill -9 -x fabricd
	wait_for 'came_to 1500'
	hosts_link h1 none
	hosts_link h2 none
	dense_exact() { exact "$1" $((2 * $2)) "$3"; } # each sample is in the table once, and once in the dense vector
	to_end dense_exact
	rows=$(grep '^row .* delay-most=' "$STATE/job.log")
	[ -n "$rows" ]
	not grep -vE ' delay-most=[0-6] ' <<<"$rows"
	[ "$(awk '/^schedule /{n++} n==3' "$STATE/schedule.log" | xfer-sched --margin 25 2>/dev/null | grep -c ' start=0 ')" -ge 1 ]
}

# bats test_tags=long
@test "hosts: groups with members on two hosts, as the server receives slowly; worker, fabric and lead killed; exact" {
	. "$BATS_TEST_DIRNAME/cluster/far.bash"
	teardown_more() { hosts_down; }
	far_file 2000 EPOCHS=6 SYNC=asp,delay:12 FABRIC=mlfabric SERVERS=1 CHECKPOINT=0.5 MODEL=audit,counts:40 \
		WORKERS=4 "PLACE='h1:2 h2:2'"
	for link in h1 h2; do hosts_link $link 40mbit; done
	hosts_link h0 4mbit/40mbit
	go first
	far_groups() { lead | grep -qE " far-groups=($1)\b"; }
	wait_for 'far_groups "[2-9]|[1-9][0-9]"'
	on h2 pkill -9 -f 'worker .*--id w2 '
	wait_for '[ "$(logged "^event role=worker id=w2 kind=ready ")" -eq 2 ]'
	on h1 pkill -9 -x fabricd
	wait_for '[ "$(logged "^event role=fabric id=fabric kind=ready ")" -eq 2 ]'
	on h0 pkill -9 -f 'ps-server --id lead '
	wait_for '[ "$(logged "^event role=lead id=lead kind=ready ")" -eq 2 ]'
	wait_for 'far_groups "[1-9][0-9]*"'
	for link in h0 h1 h2; do hosts_link $link none; done
	# Each sample is in the table once, and in the dense vector forty times.
	dense_exact() { exact "$1" $((41 * $2)) "$3"; }
	to_end dense_exact
	# What the lead planned is what xfer-sched plans.
	awk '/^schedule /{ if (of) exit; text = "" } { text = text $0 "\n" } /^aggregator /{ of = 1 } END { printf "%s", text }' \
		"$STATE/schedule.log" >state
	xfer-sched --margin 25 <state 2>/dev/null >plan
	grep -q '^group id=a[0-9]* aggregator=h[12] members=[aw][0-9],[aw][0-9]' plan
}

# bats test_tags=long
@test "hosts: SYNC late; a worker that is late, the lead, the fabric and a replica killed; exact, and nothing goes back" {
	. "$BATS_TEST_DIRNAME/cluster/far.bash"
	teardown_more() { hosts_down; }
	far_file 600 EPOCHS=6 SYNC=allreduce,delay:1,late:1.5 FABRIC=mlfabric CHECKPOINT=0.5
	sed -i s/^WORKERS=3/WORKERS=6/ job.env
	echo 'drag speed=100' >drag/w4
	hosts_link h2 2mbit
	go first
	wait_for 'came_to 300'
	wait_for 'on h0 socat -t 300 - UNIX-CONNECT:/tmp/run/lead.sock <<<stat | grep -q " stale=[1-9]"'
	on h1 pkill -9 -f 'worker .*--id w4 '
	wait_for '[ "$(logged "^event role=worker id=w4 kind=ready ")" -eq 2 ]'
	on h0 pkill -9 -f 'ps-server --id lead '
	wait_for 'came_to 1200'
	on h1 pkill -9 -x fabricd
	wait_for 'came_to 2000'
	on h2 pkill -9 -f 'ps-server --id r2 '
	wait_for 'came_to 3000'
	hosts_link h2 none
	to_end
	[ "$(logged '^rollback ')" -eq 0 ]
	rows=$(grep '^row .* delay-most=' "$STATE/job.log")
	not grep -vE ' delay-most=[01] ' <<<"$rows"
}

@test "FABRIC=mlfabric is for a bound of the delay" {
	job
	run -0 trainctl check job.env --set FABRIC=mlfabric
	[[ $output == *"FABRIC=mlfabric has no effect here"* ]]
	run -0 trainctl check job.env --set FABRIC=mlfabric --set SYNC=asp,delay:9
	[[ $output == *"FABRIC=mlfabric has no effect here: only pushes between hosts "* ]]
	run -0 trainctl check job.env --set FABRIC=mlfabric --set SYNC=allreduce
	[[ $output == *"FABRIC=mlfabric has no effect here: only sums over three hosts "* ]]
	run -78 trainctl check job.env --set FABRIC=fast
	[[ $output == *"FABRIC: 'fast'"* ]]
}
