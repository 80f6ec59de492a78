# A brain: how many workers and servers a job has is found while it trains.
load helper

# begin_planned [KEY=VALUE]...: a job with a brain that trains until let_go.
begin_planned() {
	job MODEL=audit EPOCHS=12 BATCH=16 CHECKPOINT=1 MONITOR=report:1 BRAIN=every:1,cores:8,node-cores:1 "$@"
	slow 100
	for w in w4 w5 w6 w7; do cp drag/w0 "drag/$w"; done
	begin first
	wait_for 'came_to 100'
}
let_go() {
	rm -rf drag
	ended $SUPERVISOR
	[ "$status" -eq 0 ]
}
log() { echo run/state/job.log; }
logged() { [ -e "$(log)" ] && grep -q "$1" "$(log)"; }
times() { grep -c "$1" "$(log)" || true; }
workers() { status | grep -c '^node role=worker .* state=up '; }
audited() { exact "$(tail -n 1 "${1:-first.out}" | field checkpoint)" 2000 12; }
# answered: what the brain said, round by round, as the log has it and as a replay says it.
answers() { grep -E '^brain-(fit|plan|replace|migrate|decision) '; }

# brain LINES: an executable that counts the rounds it is given, and answers the last one so.
brain() {
	cat >mind <<-B
		#!/bin/sh
		echo "\$*" >>$T/words
		grep -c '^job ' >>$T/asked
		cat $T/answer
	B
	chmod +x mind
	printf '%s\n' "$@" >answer
}
says() { # LINES: from the next round on
	printf '%s\n' "$@" >answer.new
	mv answer.new answer
}
nothing='decision change=no reason=balanced method=none now= expected= confidence='

@test "brain: an executable's plan is carried out, written down, and replayed" {
	brain "$nothing"
	begin_planned BRAIN=./mind,gain:0.25 WORKERS=1 SERVERS=1
	wait_for 'logged "^brain-done change=no reason=balanced "'
	says 'plan role=worker count=3 cores=1' \
		'decision change=yes reason=faster method=mine now=1 expected=4 confidence=0.9'
	wait_for 'logged "^brain-changed workers=3 "'
	says "$nothing"
	[ "$(workers)" = 3 ]
	status | grep '^job ' | grep -q ' brain=3%20workers%20of%201%20core,%20.*:%20faster '
	[ "$(status | grep '^job ' | field brain-changes)" = 1 ]
	wait_for '[ "$(sed "/^brain-changed/,\$!d" "$(log)" | grep -c "^brain-job ")" -ge 1 ]'
	let_go
	audited
	# As res-plan is called.
	grep -q -- '^--cores 8 --node-cores 1 --server-cores 1 --gain 0.25 --every 1 --change-cost ' words
	[ "$(times '^brain-done change=yes ')" = 1 ]
	grep -q '^brain-done change=yes reason=faster method=mine had-workers=1 had-worker-cores=1 workers=3 ' "$(log)"
	grep -q '^scaled workers=3 .*reason=brain:%20faster' "$(log)"
	# Every round again, with all before it.
	answers <"$(log)" >then
	says 'decision change=no reason=other'
	rm asked
	trainctl solve --log "$(log)" | answers >again
	[ "$(wc -l <again)" -ge 2 ]
	[ "$(sort -u again)" = "brain-decision change=no reason=other" ]
	[ "$(head -n 1 asked)" = 1 ]
	run trainctl report --run-dir run --text
	[[ $output == *"How it found its resources"* ]]
	[[ $output == *"3 workers of 1 core (before: 1 of 1): from "*" were expected)"* ]]
	[[ $output == *"faster (the measured steps promise more), by mine; sure to 90"* ]]
	trainctl report --run-dir run | grep -q '^planned change=yes reason=faster '
	[ "$(trainctl report --run-dir run | grep '^report ' | field plans)" = 1 ]
}

@test "brain: on: one worker is measured, and becomes as many as are worth it" {
	# A server that is never busy: who is worth more is a worker.
	mkdir -p drag
	echo 'drag cores=0.05' >drag/ps0
	begin_planned BRAIN=on,every:2,cores:5 WORKERS=1 SERVERS=1
	wait_for 'logged "^brain-changed workers=4 "'
	[ "$(workers)" = 4 ]
	let_go
	audited
	grep -q '^brain-fit io-time=' "$(log)"
	grep -q '^brain-done change=yes reason=faster method=search had-workers=1 ' "$(log)"
	# The same input gives the same answers.
	answers <"$(log)" >then
	trainctl solve --log "$(log)" | answers >again
	diff then again
}

@test "brain: four workers train less than one did, so there is one again" {
	mkdir -p drag
	echo 'drag cores=0.05' >drag/ps0
	cat >mind <<-B
		#!/bin/sh
		cat >in
		[ "\$(grep -c '^job ' in)" -ge 7 ] || exec echo "$nothing" # few rounds say little
		exec res-plan "\$@" <in
	B
	chmod +x mind
	begin_planned BRAIN=./mind,every:1,cores:5 WORKERS=1 SERVERS=1
	slow 100
	wait_for 'logged "^brain-changed workers=4 "'
	slow 15
	wait_for 'logged "^brain-done change=yes reason=faster-before "'
	wait_for '[ "$(workers)" = 1 ]'
	let_go
	audited
	grep -q '^brain-done change=yes reason=faster-before method=rule had-workers=4 .* workers=1 ' "$(log)"
	run trainctl report --run-dir run --text
	[[ $output == *"it did less than these had done"* ]]
}

@test "brain: one that fails or talks nonsense is skipped, and said once" {
	brain "$nothing"
	says 'plan role=worker count=3 cores=1' 'plann role=server count=2 cores=1'
	begin_planned BRAIN=./mind WORKERS=2 SERVERS=1
	wait_for '[ "$(times "^brain-done skipped=1 ")" -ge 3 ]'
	says 'plan role=worker count=0 cores=1'
	wait_for 'grep -q "count=" first.err'
	says 'plan role=worker count=3 cores=5000' 'decision change=yes reason=huge'
	wait_for 'grep -q "it plans 5000 cores for a worker, and BRAIN node-cores is 1; skipped" first.err'
	says 'plan role=worker count=8 cores=1' 'decision change=yes reason=huge'
	wait_for 'grep -q "it plans 9 cores in all, and BRAIN cores is 8; skipped" first.err'
	says "$nothing"
	wait_for 'grep -q "works again" first.err'
	cat >mind <<<'#!/bin/false'
	wait_for 'grep -q "status 1" first.err'
	[ "$(workers)" = 2 ]
	let_go
	audited
	[ "$(grep -c "'plann' is none of fit, plan, replace, migrate, rebalance, decision; skipped" first.err)" = 1 ]
	grep -q 'line 2: ' first.err
	[ "$(times '^brain-changed ')" = 0 ]
}

@test "brain: it is asked again when the monitor has begun to count anew" {
	brain "$nothing"
	mkdir drag
	job EPOCHS=1000 BATCH=16 BRAIN=./mind,every:1,cores:8,node-cores:1 WORKERS=1 SERVERS=1 "DRAG=$T/drag"
	begin first
	# So many batches that it would take far longer to count them once more.
	wait_for '[ "$(status 2>/dev/null | grep "^job " | field iteration || echo 0)" -ge 3000 ]'
	wait_for 'logged "^brain-done change=no "'
	echo 'drag speed=40' >drag/w0
	kill -9 "$(pid_of bpt-monitor)"
	# The supervisor sees what the new one counts only when all have reported to it.
	wait_for '[ -S run/bpt-monitor.sock ] && [ -e run/state/nodes/bpt-monitor.1 ]'
	kill -STOP $SUPERVISOR
	counts() { echo snapshot | socat -t 5 - UNIX-CONNECT:run/bpt-monitor.sock 2>/dev/null | grep -c ' samples=[1-9]'; }
	wait_for '[ "$(counts)" = 2 ]'
	asked=$(times '^brain-job ')
	kill -CONT $SUPERVISOR
	wait_for '[ "$(times "^brain-job ")" -gt '"$asked"' ]'
	kill $SUPERVISOR
	wait $SUPERVISOR || true
}

@test "brain: after BRAIN limit changes it is only asked" {
	brain 'plan role=worker count=3 cores=1' 'decision change=yes reason=faster'
	begin_planned BRAIN=./mind,limit:1 WORKERS=1 SERVERS=1
	wait_for 'logged "^brain-changed workers=3 "'
	says 'plan role=worker count=2 cores=1' 'decision change=yes reason=fewer'
	wait_for '[ "$(times "^brain-done change=no reason=fewer .*refused=limit ")" -ge 2 ]'
	[ "$(workers)" = 3 ]
	let_go
	[ "$(grep -c 'BRAIN=limit:1: nothing is changed any more' first.err)" = 1 ]
}

@test "brain: plans are BRAIN every apart, whoever makes them; their memory is a limit where the job has one" {
	brain 'plan role=worker count=3 cores=1 mem-bytes=2000000000' 'decision change=yes reason=faster'
	begin_planned BRAIN=./mind,every:60,memory:64G,node-memory:4G WORKERS=1 SERVERS=1
	wait_for 'logged "^brain-changed workers=3 "'
	says 'plan role=worker count=2 cores=1' 'decision change=yes reason=fewer'
	wait_for 'logged "^brain-done change=no reason=fewer .*refused=every "'
	[ "$(workers)" = 3 ]
	status | grep -q '^node role=worker id=w2 .* memory=2000000000'
	let_go
	audited
	grep -q -- ' --memory 68719476736 --node-memory 4294967296 --gain ' words
	grep -q '^brain-asked .* memory=68719476736 node-memory=4294967296 ' "$(log)"
}

@test "brain: a plan for what is there already is no change" {
	brain 'plan role=worker count=2 cores=1' 'decision change=yes reason=mood'
	begin_planned BRAIN=./mind WORKERS=2,cores:1 SERVERS=1
	wait_for '[ "$(times "^brain-done change=no reason=mood .*refused=same ")" -ge 2 ]'
	let_go
	audited
	[ "$(times '^brain-done change=yes ')" = 0 ]
	run -0 --separate-stderr trainctl report --run-dir run
	[ "$(grep ^report <<<"$output" | field plans-refused)" = 0 ]
	run -0 trainctl report --run-dir run --text
	not grep -q 'How it found its resources' <<<"$output"
}

@test "brain: what it knows outlives the supervisor" {
	brain "$nothing"
	begin_planned BRAIN=./mind WORKERS=1 SERVERS=1
	wait_for '[ "$(tail -n 1 asked)" -ge 3 ]'
	says 'plan role=worker count=2 cores=1' 'decision change=yes reason=faster'
	wait_for 'logged "^brain-changed workers=2 "'
	says "$nothing"
	wait_for '[ "$(times "^brain-done change=no ")" -ge 4 ]'
	kill -9 $SUPERVISOR
	ended $SUPERVISOR
	known=$(tail -n 1 asked)
	rm asked
	begin second
	wait_for '[ -s asked ]'
	# One more than before: none is forgotten.
	[ "$(head -n 1 asked)" -ge "$known" ]
	[ "$(status | grep '^job ' | field brain-changes)" = 1 ]
	let_go
	audited second.out
	grep -c '^brain-decision ' "$(log)" >then
	trainctl solve --log "$(log)" | grep -c '^brain-decision ' >again
	[ "$(cat again)" -ge "$(cat then)" ]
}

@test "brain: a finished job gives the next one its first plan; what is given holds" {
	job WORKERS=3 SERVERS=2
	run_job >first.out
	# No brain is needed to be remembered.
	grep -q "^finished user=.* data=$T/d.csv model=lr workers=3 worker-cores=1 servers=2 server-cores=1 steps-per-second=" \
		home/paceline/+history
	[ "$(trainctl status | wc -l)" = 1 ]
	printf '%s\n' JOB=next "DATA=$T/d.csv" LABEL=y DENSE=a SPARSE=b BATCH=64 BRAIN=on,cores:8,node-cores:1 >next.env
	run trainctl check next.env
	[[ $output == *" workers=3 servers=2 "*" brain=on cores=8 node-cores=1 memory=all node-memory=all "* ]]
	[[ $(trainctl check next.env 2>&1 >/dev/null) == *"brain: begins with 3 workers and 2 servers, as a job with $T/d.csv"* ]]
	run trainctl check next.env --set WORKERS=1
	[[ $output == *" workers=1 servers=2 "* ]]
	# Nobody is alike: the sample.
	cp d.csv other.csv
	run trainctl check next.env --set "DATA=$T/other.csv" --set MODEL=wdl --set BRAIN=off
	[[ $output == *" workers=2 servers=1 "* ]]
	trainctl run next.env --run-dir "$T/next" >next.out 2>next.err
	grep -q '^WORKERS=count:3,' next/state/job.env
	[ "$(wc -l <home/paceline/+history)" = 2 ]
	# Of that job, which is to go on, it is as it began.
	echo 'nonsense' >>home/paceline/+history
	run trainctl check next.env --run-dir "$T/next"
	[ "$status" -eq 0 ]
	run trainctl check next.env
	[ "$status" -eq 0 ]
	[[ $(trainctl check next.env 2>&1 >/dev/null) == *"brain: no first plan: "*"unknown record"* ||
		$(trainctl check next.env 2>&1) == *" workers=3 "* ]]
}

@test "brain: other cores: the node is started again with them" {
	brain "$nothing"
	begin_planned BRAIN=./mind,node-cores:4 WORKERS=2 SERVERS=2
	wait_for 'logged "^brain-done change=no "'
	says 'replace role=worker id=w1 cores=3 reason=few-cores' 'decision change=yes reason=few-cores'
	wait_for 'logged "^brain-changed "'
	says 'migrate role=server id=ps1 reason=slow-machine' 'decision change=yes reason=slow-machine'
	wait_for '[ "$(times "^brain-changed ")" -ge 2 ]'
	says "$nothing"
	grep -q '^resize id=w1 cores=3 .*reason=brain:%20few-cores' "$(log)"
	grep -q '^restart id=ps1 reason=brain:%20slow-machine' "$(log)"
	status | grep -q '^node role=worker id=w1 .* cores=3 '
	let_go
	audited
}

@test "brain: another number and another size: nobody goes before those who come are there" {
	brain "$nothing"
	begin_planned BRAIN=./mind,node-cores:4,cores:16 WORKERS=1 SERVERS=1
	wait_for 'logged "^brain-done change=no "'
	says 'plan role=worker count=3 cores=2' 'decision change=yes reason=faster'
	wait_for 'logged "^brain-changed workers=3 worker-cores=2 "'
	says "$nothing"
	[ "$(workers)" = 3 ]
	grep -E '^scaled |^resize ' "$(log)" | cut -d' ' -f1,2 >order
	printf '%s\n' 'scaled workers=3' 'resize id=w0' | diff order -
	status | grep '^node role=worker ' | grep -c ' cores=2 ' | grep -qx 3
	let_go
	audited
}

@test "brain: another number and another size: a supervisor that dies between is followed by one that goes on with it" {
	brain "$nothing"
	printf '#!/bin/sh\nwhile [ -e %s/hold ]; do sleep 0.1; done\nexec "$@"\n' "$T" >launch
	chmod +x launch
	begin_planned BRAIN=./mind,node-cores:4,cores:16 WORKERS=1 SERVERS=1 "LAUNCH_WORKER=$T/launch"
	wait_for 'logged "^brain-done change=no "'
	touch hold
	says 'plan role=worker count=3 cores=2' 'decision change=yes reason=faster'
	wait_for 'grep -q "^resizing role=worker cores=2 " run/state/kept'
	says "$nothing"
	kill -9 $SUPERVISOR
	ended $SUPERVISOR
	rm hold
	begin second
	wait_for 'logged "^brain-changed workers=3 worker-cores=2 "'
	wait_for 'status | grep "^node role=worker .* state=up " | grep -c " cores=2 " | grep -qx 3'
	wait_for 'not grep -q "^resizing " run/state/kept'
	let_go
	audited second.out
}

@test "brain: parameters shared out anew, and not again where that moves nothing" {
	brain "$nothing"
	begin_planned BRAIN=./mind WORKERS=2 SERVERS=2 BATCH=shard:1
	wait_for 'logged "^brain-done change=no "'
	# So much has been asked of all servers that they can say who has more to do.
	wait_for '[ "$(status | grep "^job " | field iteration)" -ge 20 ]'
	says 'rebalance role=server id=ps1 reason=hot' 'decision change=yes reason=hot'
	wait_for 'logged "^brain-changed "'
	says "$nothing"
	status | grep '^job ' | grep -q ' brain=parameters%20shared%20out%20anew,%20because%20of%20ps1:%20hot '
	# All keys are asked for equally often here: there is nothing to gain, and it is not offered again.
	grep -q '^rebalance-refused code=even reason=hot ' "$(log)"
	# Nor does it count for BRAIN limit.
	grep -q '^brain-changed .* changes=0 ' "$(log)"
	grep '^brain-job ' "$(log)" | head -n 1 | grep -q ' rebalance=1'
	wait_for '[ "$(sed "/^brain-changed/,\$!d" "$(log)" | grep -c "^brain-job ")" -ge 1 ]'
	sed '/^brain-changed/,$!d' "$(log)" | grep '^brain-job ' >after
	not grep -q ' rebalance=' after
	let_go
	audited
}

@test "brain: begun with one worker and one server, a job is near its best pace within its first tenth" {
	# Six nodes more may come; an update is the shorter, the more servers there are.
	job MODEL=audit EPOCHS=30 BATCH=16 CHECKPOINT=end MONITOR=report:1 BRAIN=./mind,every:1,cores:8,node-cores:1 \
		WORKERS=1 SERVERS=1 "DRAG=$T/drag"
	mkdir drag
	for w in 0 1 2 3 4 5 6; do echo 'drag speed=25 cores=1' >"drag/w$w"; done
	servers_drag() {
		for p in 0 1 2 3 4 5 6; do echo "drag speed=$((100 * $1)) cores=1" >"drag/ps$p"; done
	}
	servers_drag 1
	cat >mind <<-B
		#!/bin/bash
		answer=\$(res-plan "\$@")
		count=\$(tac <<<"\$answer" | sed '/^\$/,\$d' | sed -n 's/^plan role=server count=\\([0-9]*\\) .*/\\1/p')
		[ -z "\$count" ] || { $(declare -f servers_drag); cd $T; servers_drag \$count; }
		printf '%s\\n\\n' "\$answer"
	B
	chmod +x mind
	begin first
	# A batch takes 0.64 s/workers + 0.16 s/servers: 5 and 3 are best, and the sum of those that count.
	pace() { awk -v w="$1" -v s="$2" 'BEGIN { print 1 / (0.64 / w + 0.16 / s) }'; }
	is_near() {
		local w s
		w=$(tail -n 1 <<<"$1" | field workers)
		s=$(tail -n 1 <<<"$1" | field servers)
		awk -v now="$(pace "$w" "$s")" -v best="$(pace 5 3)" 'BEGIN { exit !(now >= 0.9 * best) }'
	}
	wait_for '[ -e "$(log)" ] && is_near "$(grep "^brain-changed " "$(log)")"'
	[ "$(done_samples)" -le 6000 ]
	# Servers as workers came while it trained: nobody started anew, and nothing went back.
	status | grep -q '^node role=worker id=w0 .* restarts=0 '
	[ "$(times '^rollback ')" = 0 ]
	wait_for 'awk "/^brain-changed/ { n = 0 } /^brain-job/ { n++ } END { exit n < 1 }" "$(log)"'
	rm -rf drag
	ended $SUPERVISOR
	[ "$status" -eq 0 ]
	exact "$(tail -n 1 first.out | field checkpoint)" 2000 30
	trainctl report --run-dir run --text | tr -s ' \n' ' ' >text
	# Decision by decision.
	grep -q 'How it found its resources .* 2 servers of 1 core (before: 1 of 1): from .* samples/s (x.* were expected) busy-servers (they used all of their cores), by rule; sure to 9.*%; it took .* and cost .* of training' text
	grep -q ' [3-6] workers of 1 core (before: 1 of 1), .* faster (the measured steps promise more), by search; sure to ' text
}
