# rooms: sim
load helper
unset SLOW LINK

# The last record's field.
field() { trainsim -s "${@:2}" | plrec tsv "$1"; }

# The number on standard input is one, and between these.
between() { awk -v low="$1" -v high="$2" '{ is = $1 > low && $1 < high } END { exit !is }'; }

# A job of four workers; more fields, then records.
four() {
	printf 'job workers=4 samples=40000 batch=400 shard=400 %s\ncost sample=0.001\n' "$1"
	shift
	[ $# = 0 ] || printf '%s\n' "$@"
}

@test "usage: help and version exit 0, mistakes 64" {
	run -0 trainsim --help
	[[ $output == "usage: trainsim "* ]]
	run -0 trainsim --version
	run -64 trainsim more </dev/null
	run -64 trainsim --seed -1 </dev/null
	run -64 trainsim --until soon </dev/null
}

@test "times are those of formulas" {
	[ "$(four sync=bsp | field jct)" = 10.000000 ]
	[ "$(four sync=bsp 'node id=w2 speed=250' | field jct)" = 40.000000 ]
	# From 2 s on it is slow: twenty iterations of 0.1 s, eighty of 0.4 s.
	[ "$(four sync=bsp 'node id=w2 at=1.99 speed=250' | field jct)" = 34.000000 ]
	[ "$(four 'sync=allreduce hosts=2' 'cost sum=0.05' | field jct)" = 15.000000 ]
	# Three checkpoints, each in the middle of a batch, whose other half needs no server.
	[ "$(four 'sync=bsp checkpoint=3.05' 'cost save=0.5' | field jct)" = 11.350000 ]
	# The next is due so long after one is written.
	[ "$(four 'sync=bsp checkpoint=1.03' 'cost save=0.5' | trainsim | sed -n 's/^checkpoint .* at=1000000//p' | head -n 3 | paste -sd' ')" = \
		'001.030000 002.560000 004.090000' ]
	[ "$(four sync=bsp | field jct --until 0.05)" = 0.000000 ] # nothing was committed
	[ "$(four sync=bsp 'persistent nodes=w1 sleep=0.2 intensity=1' | field jct)" = 30.000000 ]
}

@test "the same seed gives the same bytes, another one another course" {
	four 'sync=bsp solution=pace' 'transient p=0.5 on=2 every=4 sleep=0.3 intensity=1' 'event kind=kill id=w3 at=5' 'cost start=1' >c
	trainsim <c >a
	trainsim <c >b
	cmp a b
	trainsim --seed 2 <c >b
	not cmp -s a b
}

@test "a solution decides as it does in a job, and its restarts happen" {
	run -0 field jct --solution none < <(four sync=bsp 'node id=w2 speed=250')
	[ "$output" = 40.000000 ]
	for solution in pace antdt-nd lb-bsp; do
		four sync=bsp 'node id=w2 speed=250' | field jct --solution $solution | between 12 15
	done
	# slow in its first life only: a new process is as fast as the others
	four 'sync=bsp epochs=20 restart-window=5 every=5' 'persistent nodes=w1 life=0 sleep=0.4 intensity=1' 'cost start=2' >c
	[ "$(trainsim -s --solution antdt-nd <c | plrec tsv restarts)" = 1 ]
	trainsim --solution antdt-nd <c | grep -q '^restart id=w1 '
}

@test "a solution that is an executable is asked and obeyed as in a job" {
	four 'sync=bsp every=5 lambda=1.7' 'node id=w2 speed=250' >c
	cat >outside <<-'END'
		#!/usr/bin/env bash
		echo "$@" >>asked
		exec trainctl solve antdt-nd "${@/#/-o}"
	END
	chmod +x outside
	trainsim --solution antdt-nd <c | grep -v ^begin | sed s/solution=antdt-nd/solution=outside/ >a
	trainsim --solution outside <c | grep -v ^begin >b
	cmp a b
	[[ $(head -n 1 asked) == *lambda=1.7* ]]
	[ "$(grep -c ^decision a)" = "$(wc -l <asked)" ]
	[ "$(trainsim -s --solution "$PWD/outside" <c)" = "$(trainsim -s --solution antdt-nd <c)" ]
	trainctl solve --log b antdt-nd | grep '^action' | cmp - <(grep '^action' b)
	# What a job would skip is skipped: dead, no action, half a decision, of a node that is not there.
	local answer
	for answer in 'exit 3' 'kill -9 $$' 'echo jump' 'echo action kind=none; echo action kind=eat' 'head -c 2000000 /dev/zero' \
		'echo action kind=adjust-bs role=worker id=w2 size=30 accum=1; echo action kind=adjust-bs role=worker id=w9 size=1 accum=1' \
		'echo action kind=backup-workers count=4' 'echo action kind=kill-restart role=worker id=ps0'; do
		printf '#!/bin/sh\n%s\n' "$answer" >outside
		run -0 --separate-stderr trainsim --solution outside <c
		echo "$answer: $stderr"
		[[ $stderr == "trainsim: solution outside: "*"; skipped" ]]
		[ "${#stderr_lines[@]}" = 1 ] # until its reason changes
		[[ $output == *"decided actions=0 skipped=1 "* ]]
		[[ $output != *$'\naction '* ]]
		[[ $output == *"state=done jct=40.000000 "* ]]
	done
	chmod -x outside
	run -65 trainsim --solution outside <c
	[[ $output == *"no built-in solution, and no executable"* ]]
}

@test "workers predict their speeds, as in a job" {
	four 'sync=bsp solution=lb-bsp epochs=5' 'event kind=kill id=w1 at=9' >c
	# w2 is fast and slow in turn; the load of its node says when.
	for i in {1..100}; do echo "node id=w2 at=$((i / 2)).$((i % 2 * 5)) speed=$((i % 3 ? 900 : 300))"; done >>c
	at() { sed "1s/\$/ $1/" c | field jct "${@:2}"; }
	[ "$(at predict=last)" = "$(at predict=none)" ]
	[ "$(at predict=ema)" != "$(at predict=none)" ]
	[ "$(at predict=arx)" != "$(at 'predict=arx load=1')" ]
	between 0 "$(at predict=none)" <<<"$(at 'predict=arx load=1')"
	for model in quantile arima rnn lstm narx gam mix; do
		[ "$(at predict=$model)" = "$(at predict=$model)" ]
	done
	[ "$(at predict=ema --solution none)" = "$(at predict=none --solution none)" ]
}

@test "a worker's step is what fits its memory at most, one sample at least" {
	four 'sync=bsp solution=lb-bsp' 'node id=w0 speed=4000 memory=120' 'cost sample=0' 'persistent nodes=w1,w2,w3 sleep=0.1 intensity=1' >c
	[ "$(trainsim <c | plrec where type=series id=w0 | plrec tsv size | sort -n | tail -n 1)" = 114 ]
	four 'sync=bsp profile=1' 'node id=w0 speed=4000 memory=1' >c
	[[ $(trainsim <c) == *$'\ndevice role=worker id=w0 '*" max=1 "*$'\nsummary '* ]]
}

# At a barrier workers go on at once where nothing else happens meanwhile; with something at each half millisecond they
# never do.
@test "events without an effect change nothing" {
	for sync in bsp 'bsp backup=2' ssp:2 asp 'allreduce hosts=2'; do
		cat >c <<-END
			job workers=20 servers=2 samples=100000 batch=2000 shard=4000 sync=$sync solution=antdt-nd every=2
			cost sample=0.001 batch=0.01 commit=0.004 message=0.001 start=1 pull=0.002 push=0.002
			transient on=5 every=10 p=0.3 sleep=1.5 intensity=0.1
			node id=w2 speed=250
			event kind=kill id=w7 at=3
			event kind=stop id=w9 at=4
			event kind=go-on id=w9 at=7
		END
		trainsim <c >quiet
		awk 'BEGIN { for (i = 1; i < 60000; i++) printf "event kind=go-on id=w3 at=%.4f\n", i * 0.0005 }' >>c
		trainsim <c >busy
		cmp quiet busy
		[ "$(plrec where type=summary <quiet | plrec tsv samples)" = 100000 ]
	done
}

@test "a killed worker's rows are trained by the others, and each row once" {
	four sync=bsp 'event kind=kill id=w3 at=3.05' 'cost start=1' >c
	[ "$(field samples <c)" = 40000 ]
	four sync=asp 'event kind=leave id=w3 at=3.05' 'event kind=join id=w3 at=5' >c
	[ "$(field samples <c)" = 40000 ]
	[ "$(field state <c)" = "done" ]
	# Its start is known, whoever asked for it; as is a server's hand-over, for which pulls wait.
	four sync=bsp 'event kind=restart id=w3 at=3.05' 'cost start=1' >c
	[ "$(field restarts <c)" = 1 ]
	four sync=bsp 'event kind=restart id=ps0 at=3.05' 'cost start-server=1 hand-over=2' >c
	[ "$(field jct <c)" = 11.950000 ]
	mkdir state
	trainsim <c >state/job.log
	trainctl report --state-dir state --records | grep -q '^restarted .* role=server id=ps0 why=kill-restart .*seconds=3.0.* down=2.0'
	# Its next process is there before the lead has answered the one that is dead.
	four sync=ssp:2 'event kind=kill id=w3 at=0.125' 'cost commit=0.01 push=0.01' >c
	[ "$(field samples <c)" = 40000 ]
}

@test "a worker for which there are no rows is waited for only at the beginning" {
	# The first two take all rows, two batches of 250 each; the lead waits 10 s for the others.
	printf 'job workers=8 samples=1000 batch=2000 sync=bsp\ncost sample=0.001\n' >c
	[ "$(field state <c)" = "done" ]
	[ "$(field jct <c)" = 10.500000 ]
}

@test "a worker without rows gets those that come back, at once" {
	# w1, ten times slower, leaves when w0 has trained all others for a while: 0.3 s more.
	printf '%s\n' 'job workers=2 sync=asp samples=600 batch=40 shard=40' 'cost sample=0.001' \
		'node id=w0 speed=200' 'node id=w1 speed=20' 'event kind=leave id=w1 at=3.25' >c
	[ "$(field jct <c)" = 3.550000 ]
}

@test "a worker asks shardd for one piece at a time, as in a job" {
	# w3 is late for every iteration, and its rows go back: pieces become as small as a batch, and it holds few at the end.
	printf '%s\n' 'job workers=4 sync=bsp samples=20000 batch=240 shard=2400 solution=backup:1 every=0.5' \
		'node id=w0 speed=800' 'node id=w1 speed=800' 'node id=w2 speed=800' 'node id=w3 speed=400' \
		'cost sample=0.00001' >c
	field jct <c | between 8.4 8.6
}

@test "a worker may come later, and a link may be cut" {
	# Half of the samples by three of four for as long as it takes: w3 is not there before.
	four 'sync=asp ahead=1' 'event kind=leave id=w3 at=0' 'event kind=join id=w3 at=5' >c
	field jct <c | between 11 11.6
	four sync=bsp 'event kind=leave id=w3 at=0' >c
	[ "$(field samples <c)" = 40000 ]
	[ "$(field state <c)" = "done" ]
	four 'sync=bsp bytes=1e6' 'link id=w1 rate=1e9' 'link id=w1 at=5 rate=1e7' >c
	# 0.102 s each until then, 0.3 s each after it
	field jct <c | between 20 21
	# The same where it is the link of a host: its two workers are twice as slow, those of the other are not.
	four 'sync=bsp bytes=1e6 hosts=2' 'link id=h1 rate=1e9' 'link id=h1 at=5 rate=1e7' >c
	field jct <c | between 24 26
	[ "$({ cat c; printf 'node id=w%s host=h0\n' 2 3; } | field jct)" = 10.000000 ]
	# A server there is near to two of the workers.
	[ "$({ cat c; echo 'node id=ps0 host=h1'; } | field jct)" = "$(field jct <c)" ]
	four 'sync=allreduce bytes=1e6 hosts=2' 'link id=h1 rate=1e7' >c
	[ "$(field jct <c)" = 20.000000 ]
}

@test "pushes whose delay is bounded take turns by the rates of links, as in a job" {
	# Eight workers on four hosts, and one host with a slow link.
	slow() {
		{ echo "job workers=8 hosts=4 samples=40000 batch=800 bytes=1e6 $1"
		printf '%s\n' 'cost sample=0.001 message=0.0001' 'link id=ps0 rate=1e7' 'link id=h3 rate=1e6' "${@:2}"; } | trainsim -s
	}
	of() { plrec tsv "$1" <<<"$2"; }
	local bound plain turns sync more=
	for bound in 8 60; do
		plain=$(slow "sync=asp delay=$bound")
		turns=$(slow "sync=asp delay=$bound fabric=mlfabric")
		[ "$(of samples "$plain") $(of samples "$turns")" = '40000 40000' ]
		[ "$(of delay-most "$plain")" -le $bound ]
		[ "$(of delay-most "$turns")" -le $bound ]
		between 0 "$(of jct "$plain")" <<<"$(of jct "$turns")"
		# Those of one host that go together are one sum.
		[ "$(of iterations "$turns")" -lt "$(of iterations "$plain")" ]
	done
	[ "$(of stale "$(slow 'sync=asp delay=2')")" -gt 0 ]
	[[ $(slow 'sync=asp delay=60') != *stale=* ]]
	# The links change, nodes come, go, stand still and die: each row once.
	for sync in 'asp delay=9' 'asp delay=20 fabric=mlfabric' 'ssp:2 delay=9 fabric=mlfabric' 'asp delay=3 fabric=mlfabric servers=2 most-servers=3 checkpoint=5'; do
		[[ $sync != *servers* ]] || more=' servers=3'
		turns=$(slow "most-workers=10 hung=5 sync=$sync" 'cost message=0.002 start=1 commit=0.003 apply=0.002 save=0.1 hand-over=0.5' \
			'link id=h0 rate=1e6' 'link id=h0 at=9 rate=1e8' 'link id=h3 at=12 rate=1e8' 'scale workers=10 at=11' 'scale workers=7 at=16' \
			"scale workers=7 at=18$more" 'transient p=0.4 on=3 every=7 sleep=0.5 intensity=1' \
			'event kind=kill id=w1 at=2.2' 'event kind=stop id=w2 at=3.13' 'event kind=kill id=w5 at=5.55' 'event kind=stop id=w6 at=8.31')
		echo "$sync: $turns"
		[ "$(of state "$turns")" = "done" ]
		[ "$(of samples "$turns")" = 40000 ]
	done
}

@test "a server dies, all go back to a checkpoint: each row is trained once, whatever happens" {
	local sync
	for sync in bsp asp ssp:2 'bsp backup=1' 'bsp solution=lb-bsp' 'asp delay=20 hosts=2 fabric=mlfabric'; do
		four "sync=$sync servers=2 most-servers=3 most-workers=6 checkpoint=1.3 hung=4" \
			'cost start=0.3 start-server=0.4 hand-over=0.1 save=0.05 message=0.002 commit=0.003 apply=0.001' \
			'event kind=kill id=ps1 at=2.03' 'event kind=kill id=ps0 at=2.2' 'event kind=stop id=w2 at=2.1' \
			'event kind=kill id=w1 at=2.15' 'event kind=restart id=ps0 at=4' 'event kind=kill id=ps1 at=4.1' \
			'scale workers=6 servers=3 at=5' 'event kind=kill id=ps0 at=5.2' 'event kind=leave id=w3 at=6' 'event kind=kill id=ps2 at=7' >c
		trainsim <c >log
		tail -n 1 log
		[ "$(tail -n 1 log | plrec tsv state samples)" = "done"$'\t40000' ]
		[ "$(grep -c '^rollback ' log)" = 5 ]
	done
	four sync=allreduce 'event kind=kill id=ps0 at=1' >c
	run -65 trainsim <c
}

@test "batches overlap with sums, and late ones are left out: each row is trained once, whatever happens" {
	local fields seed
	for fields in profile=0 late=1.5 'late=1.2 backup=1' 'late=2 solution=antdt-nd every=1 short=1 long=5' 'late=3 solution=lb-bsp'; do
		four "sync=allreduce hosts=3 delay=1 most-workers=6 hung=4 $fields" 'cost start=0.7 sum=0.03 message=0.002 commit=0.003 rows=0.001 save=0.1' \
			'transient p=0.4 on=0.7 every=1.3 sleep=0.4 intensity=1' 'event kind=kill id=w1 at=2.2' 'event kind=stop id=w2 at=3.13' \
			'event kind=stop id=w0 at=3.5' 'event kind=go-on id=w0 at=5' 'event kind=leave id=w3 at=4.2' 'event kind=join id=w3 at=6.1' \
			'scale workers=6 at=7.7' 'scale workers=3 at=12.2' >c
		for seed in 1 2 3; do
			trainsim -s --seed $seed <c >last
			echo "$fields: $(<last)"
			[ "$(plrec tsv state samples delay-most <last)" = "done"$'\t40000\t1' ]
			[ "$fields" != late=1.5 ] || [ "$(plrec tsv stale <last)" -gt 0 ]
		done
	done
}

@test "a job is scaled: each row is trained once, whatever happens meanwhile" {
	local sync
	for sync in bsp asp ssp:2 'allreduce hosts=2' 'bsp solution=antdt-nd every=1' 'bsp solution=lb-bsp'; do
		four "most-workers=9 most-servers=3 sync=$sync" 'cost start=0.3 pending=0.2 pending-more=0.5 start-server=1 hand-over=0.1 apply=0.001' \
			'scale workers=9 at=1' 'event kind=kill id=w5 at=1.4' 'event kind=kill id=w8 at=3' 'scale workers=2 at=4' \
			'event kind=kill id=w0 at=4.05' 'event kind=join id=w7 at=4.5' 'scale workers=6 at=5' 'scale workers=4 at=5.1' >c
		[[ $sync == allreduce* ]] || echo 'scale workers=6 servers=3 at=2' >>c
		trainsim <c >log
		tail -n 1 log >last
		[ "$(plrec tsv state <last)" = "done" ]
		[ "$(plrec tsv samples <last)" = 40000 ]
		[ "$(grep -c '^scaled ' log)" -ge 4 ]
		[[ $sync == *=lb-bsp ]] || grep -q '^action kind=adjust-bs .*reason=scaled' log
	done
	# 400 samples in 0.15 s, until 8 workers train them in 0.1 s, or twice as many in 0.15 s.
	four most-workers=8 'cost batch=0.05' 'scale workers=8 at=7.5' | trainsim -s | plrec tsv jct | between 12.4 12.6
	four 'most-workers=8 scaling=linear' 'cost batch=0.05' 'scale workers=8 at=7.5' | trainsim -s | plrec tsv jct | between 11.2 11.5
	# A scheduler that is slow now and then: what the seed says.
	four most-workers=6 'cost pending=1 pending-more=3' 'scale workers=6 at=0.5' >c
	[ "$(trainsim <c)" = "$(trainsim <c)" ]
	[ "$(trainsim <c)" != "$(trainsim --seed 2 <c)" ]
}

# A brain that says this in each round.
brain() {
	printf '#!/bin/sh\ncat >/dev/null\n' >mine
	printf 'echo "%s"\n' "$@" 'decision change=yes reason=mine method=mine now= expected= confidence=' >>mine
	chmod +x mine
}

@test "a brain is asked as in a job, and its nodes come, go and get other cores" {
	printf '%s\n' 'job workers=4 samples=40000 batch=400 shard=400 most-workers=8 most-servers=4' \
		'brain program=./mine cores=64 node-cores=8 worker-cores=2 server-cores=2' \
		'cost sample=0.0016 apply=0.001 start=0.95 pending=2 start-server=1 hand-over=0.5' >c
	# It is asked at 7 s. By then 36 iterations of 0.164 s are done; all workers start again, the first of them
	# trains a batch alone, then there are 63 iterations of half the time, and a last one that needs no server.
	brain 'plan role=worker count=4 cores=4'
	trainsim <c >log
	[ "$(tail -n 1 log | plrec tsv jct)" = "$(awk 'BEGIN { printf "%.6f", 7 + 0.081 + 63 * 0.084 + 0.08 }')" ]
	grep -q '^brain-done change=yes .*had-worker-cores=2 workers=4 worker-cores=4 ' log
	grep -q '^brain-changed workers=4 worker-cores=4 .* took=0.950000 cost=0.950000 ' log
	[ "$(grep -c '^brain-asked ' log)" = 1 ]
	trainctl solve --log log | grep '^brain-plan' | cmp - <(grep '^brain-plan' log)
	sed 's/^brain /&limit=0 /' c >never
	[ "$(field jct <never)" = "$(sed '/^brain/d' c | field jct)" ]
	# More servers of other cores: those that come are there before the others change, one after the other.
	brain 'plan role=server count=2 cores=4'
	trainsim <c >log
	grep -q '^brain-changed workers=4 worker-cores=2 servers=2 server-cores=4 .* took=4.000000 ' log
	[ "$(tail -n 1 log | plrec tsv restarts)" = 1 ]
	# Whatever it says, and whoever dies: each row once.
	local answer
	for answer in 'plan role=worker count=8 cores=3' 'plan role=worker count=1 cores=8' 'plan role=worker count=99 cores=1' \
		'replace role=worker id=w1 cores=8 reason=few' 'replace role=server id=ps0 cores=3 reason=hot' \
		'migrate role=worker id=w2 reason=slow-machine' 'replace role=worker id=w0 batch=100 reason=oom'; do
		brain "$answer"
		{ cat c; printf 'event kind=kill id=w%s at=7.0%s\n' 1 3 2 5; echo 'event kind=kill id=w0 at=8.5'; } | trainsim >log
		echo "$answer"
		[ "$(tail -n 1 log | plrec tsv state)" = "done" ]
		[ "$(tail -n 1 log | plrec tsv samples)" = 40000 ]
		grep -q '^brain-done change=yes ' log
	done
	# What a job would skip or refuse.
	for answer in 'plan role=worker count=64 cores=8' 'plan role=worker count=1 cores=9' 'eat role=worker' \
		'migrate role=worker id=w9 reason=x' 'rebalance role=server id=ps0 reason=hot'; do
		brain "$answer"
		run -0 --separate-stderr trainsim <c
		echo "$answer: $stderr"
		[[ $stderr == "trainsim: brain"* ]]
		[ "${#stderr_lines[@]}" = 1 ]
		[[ $output != *'brain-done change=yes'* ]]
	done
}

@test "res-plan finds the nodes of a simulated job" {
	cat >c <<-'END'
		job workers=1 most-workers=30 most-servers=8 samples=4000000 batch=1000 sync=asp
		brain cores=40 node-cores=8 worker-most=2 server-most=2
		cost sample=0.0004 apply=0.004 pull=0.001 push=0.001 start=10 start-server=10 hand-over=0.5 pending=5 pending-more=5
	END
	trainsim <c >log
	[ "$(tail -n 1 log | plrec tsv samples)" = 4000000 ]
	grep '^brain-done change=yes' log | tail -n 1 | plrec tsv workers | between 9 31
	[ "$(trainsim <c)" = "$(<log)" ]
	# As many as there is memory for: 10e9 bytes, and a fifth more than is used is planned.
	sed 's/^brain /&memory=10000000000 worker-bytes=1e9 server-bytes=1e9 /' c | trainsim >less
	grep '^brain-done change=yes' less | tail -n 1 | plrec tsv workers | between 2 8
	between 0 "$(sed '/^brain/d' c | field jct)" <<<"$(awk -v a="$(tail -n 1 log | plrec tsv jct)" 'BEGIN { print 4 * a }')"
	trainctl solve --log log | grep '^brain-plan' | cmp - <(grep '^brain-plan' log)
}

@test "who stands still holds up the others" {
	four sync=bsp 'event kind=stop id=w0 at=1.05' 'event kind=go-on id=w0 at=6.05' >c
	[ "$(field jct <c)" = 15.000000 ]
	# Nothing can happen any more, though a log, decisions, checkpoints and who asks for rows go on.
	local fields
	for fields in sync=bsp 'sync=bsp solution=pace' 'sync=bsp checkpoint=1' sync=asp; do
		four "$fields hung=never" 'event kind=stop id=w0 at=1.05' >c
		timeout 60 trainsim <c >log
		[ "$(tail -n 1 log | plrec tsv state)" = stopped ]
	done
	# Who only starts slowly moves.
	four 'sync=bsp checkpoint=1 hung=start:never' 'cost start=5000' >c
	[ "$(field state <c)" = "done" ]
}

@test "a worker that stands still is hung as in a job, and its rows are trained once" {
	local sync
	for sync in bsp asp ssp:2 'allreduce hosts=2'; do
		four "sync=$sync" 'cost start=0.5' 'event kind=stop id=w0 at=1.05' >c
		trainsim <c >log
		# After a batch of 0.1 s; ten seconds after it was stopped.
		grep -q '^event role=worker id=w0 kind=hung section=batch silent=10.0[0-9]* deadline=10.000000 life=0 at=1000000011.05' log
		[ "$(tail -n 1 log | plrec tsv samples)" = 40000 ]
		sed 's/^job/& hung=4,start:1/' c | trainsim | grep -q ' silent=4.000000 deadline=4.000000 '
		# Who waits for others owes nothing; it is stopped in the barrier, and hung when that is over.
		[[ $sync != bsp ]] || { four sync=bsp 'node id=w1 speed=5' 'event kind=stop id=w0 at=5' | trainsim |
			grep -q ' id=w0 kind=hung .* at=1000000030.000000'; }
	done
	# It starts too slowly, and again: the job fails.
	four 'sync=bsp hung=start:2 restarts=3' 'cost start=2.5' | trainsim >log 2>err
	[ "$(tail -n 1 log | plrec tsv state time)" = failed$'\t'8.000000 ]
	[ "$(<err)" = 'trainsim: w0 has ended 4 times in a row (RESTARTS)' ]
	[ "$(grep -c ' kind=hung section=start ' log)" -ge 4 ]
}

@test "what reads a job's log reads this one" {
	mkdir state
	four 'sync=bsp solution=antdt-nd' 'node id=w2 speed=250' 'cost commit=0.004 start=1' | trainsim >state/job.log
	run -0 trainctl report --state-dir state --text
	[[ $output == "sim: done in "* ]]
	[[ $output == *"waiting for slower workers, mostly for w2"* ]]
	[[ $output == *"batch sizes set, from "*" (w2) to "* ]]
	trainctl solve --log state/job.log antdt-nd | grep '^action' >again
	grep '^action' state/job.log | cmp - again
}

@test "a bad cluster is refused with its line" {
	run -65 trainsim </dev/null
	[[ $output == *"no job record"* ]]
	run -65 trainsim <<<'node id=w1'
	[[ $output == "trainsim: stdin:1: node: a job record must come first" ]]
	local line
	for line in 'job workers=4' 'node id=w4' 'node id=ps1' 'node id=w01' 'node id=w18446744073709551616' 'node id=w1 speed=NaN' 'link id=w1 rate=0' 'link id=w7 rate=1' 'link id=h1 rate=1' 'link id=h' 'link id=h0' 'link id=h0x rate=1' 'node id=w1 host=h1' 'node id=w1 host=h00' 'link id=h00 rate=1' 'node id=w1 at=1000000001' 'node id=w1 host=w1' 'link id=w1' \
		'cost sample=-1' 'cost batch=inf' 'event kind=kill id=w9 at=1' 'event kind=eat id=w1 at=1' 'event kind=kill id=w1' \
		'event kind=leave id=ps0 at=1' 'event kind=oom id=w1 at=1' 'scale at=1' 'scale workers=0 at=1' 'scale workers=5 at=1' 'scale workers=2 servers=2 at=1' 'transient p=2' 'persistent nodes=w9' 'replay file=nowhere' 'device' \
		brain 'brain cores=8' 'brain cores=8 node-cores=0' 'brain cores=1 node-cores=1' 'brain cores=8 node-cores=1000000' \
		'brain cores=8 node-cores=8 program=nothing' 'brain cores=8 node-cores=8 memory=-1' 'brain cores=8 node-cores=8 program=off' 'brain cores=8 node-cores=8 every=-1' \
		"node id=w1 speed=$(printf '%05000d' 1)" 'node id=w1 speed' 'cost sampel=1' 'node id=w1 sped=1' 'link id=w1 rate=1 from=2' \
		'event id=w1 kind=kill at=1 node=2' 'scale workers=2 at=1 in=3' 'brain cores=8 node-cores=8 memry=1' 'transient prob=1'; do
		run -65 trainsim < <(four sync=bsp "$line")
		echo "$line: $output"
		[[ $output == *"stdin:3"* ]]
	done
	for line in workers=1000000000000000000 workers=0 workers=NaN workers=401 samples=1e18 batch=0 sync=ssp:x \
		sync=some predict=soothsayer load=2 hung=soon hung=-1 hung=nap:3 restarts=-1 delay=3 delay=0 fabric=carrier scaling=some late=2 'delay=2 sync=allreduce' 'late=0.5 sync=allreduce delay=1' lamda=2 solution=nothing every=0 every=1e-9 checkpoint=1e-9 short=5000 servers=9999 hosts=5 ahead=9999999 backup=4 most-workers=1e9 most-servers=4097 epochs=18446744073709551615; do
		run -65 trainsim < <(four "$line" | sed "1s/ ${line%%=*}=[^ ]*\\(.*${line%%=*}\\)/\\1/")
		echo "$line: $output"
		[[ $output == *"stdin:1"* ]]
	done
	[ "$(trainsim 2>&1 < <(four sync=bsp 'cost sampel=1'))" = 'trainsim: stdin:3: cost has no key sampel=; the nearest is sample=' ]
	run -65 trainsim < <(head -c 100000 /dev/urandom)
	run -65 trainsim < <(printf 'job workers=4 samples=4')
	run -65 trainsim --strict <<<'something else=1'
	four sync=bsp >c
	run -74 bash -c 'trainsim <c >/dev/full'
	[ "${#lines[@]}" = 1 ]
}

@test "of two records of a node for one time the later one holds" {
	local more=()
	for i in {1..300}; do more+=("node id=w$((i % 3)) at=2 speed=$i" "link id=w$((i % 3)) at=3 rate=$i"); done
	four 'sync=bsp bytes=1' "${more[@]}" >c
	four 'sync=bsp bytes=1' 'node id=w0 at=2 speed=300' 'node id=w1 at=2 speed=298' 'node id=w2 at=2 speed=299' \
		'link id=w0 at=3 rate=300' 'link id=w1 at=3 rate=298' 'link id=w2 at=3 rate=299' >once
	[ "$(trainsim <c)" = "$(trainsim <once)" ]
}

# The log of a simulated job is copied, simulated again, and one thing changed: its answer is known.
advised() { # JOB-FIELDS RECORD...
	rm -rf state
	mkdir state
	four "sync=bsp job=sim every=1 $1" "${@:2}" | trainsim >state/job.log
	printf '%s\n' JOB=sim DATA=/nowhere.csv FORMAT=csv LABEL=y WORKERS=4 "SERVERS=${1:8:1}" SYNC=bsp BATCH=400,shard:1 \
		SOLUTION=none,every:1 >state/job.env
	trainctl advise --state-dir state >advice
}

@test "trainctl advise: the machine that made a job long, and what other choices would have saved" {
	advised servers=2 'node id=w2 speed=250' 'cost pull=0.002 push=0.002 commit=0.003 start=0.2'
	grep -Eq '^advice job=sim is=machine kind=worker what=w2 saves=29.8[0-9]* of=40.7[0-9]* .* error=0.0' advice
	[ "$(plrec where type=suspect kind=worker <advice | wc -l)" = 1 ]
	# Even sizes for uneven workers: three of them at 1000 samples/s and one at 250 train 3250.
	grep '^option kind=solution what=lb-bsp ' advice | plrec tsv saves | between 26 28
	trainctl advise --state-dir state --cluster | trainsim -s >again
	[ "$(plrec tsv jct <again)" = "$(tail -n 1 state/job.log | plrec tsv jct)" ]
	sed -i s/BATCH=400/BATCH=800001/ state/job.env
	trainctl advise --state-dir state >advice
	grep -q '^option kind=batch what=1600002 ' advice
	# A slow server, and a job in which nothing stands out.
	advised servers=2 'node id=ps1 delay=0.1'
	grep -q '^advice job=sim is=machine kind=server what=ps1 ' advice
	advised servers=2
	grep -q '^advice job=sim is=job kind= what= ' advice
	run -0 trainctl advise --state-dir state --records
	run -0 script -qec 'trainctl advise --state-dir state' /dev/null
	[[ $output == *'job, no machine'*Suspects*Options* ]]
	# Two that are slow alike hide behind each other.
	advised servers=2 'node id=w2 speed=250' 'node id=w3 speed=250'
	grep -Eq '^advice job=sim is=job kind=workers what= saves=2[34]\.' advice
	[ "$(plrec where type=suspect kind=worker <advice | wc -l)" = 2 ]
	# On one host they are that machine, and as fast as all others the job would take a quarter.
	sed -i 's/^event role=worker id=w[01] /&host=h1 /;s/^event role=worker id=w[23] /&host=h2 /' state/job.log
	trainctl advise --state-dir state >advice
	grep -Eq '^advice job=sim is=machine kind=host what=h2 saves=(29|30)\.' advice
	advised servers=4 'node id=ps2 delay=0.1' 'node id=ps3 delay=0.1'
	grep -Eq '^advice job=sim is=job kind=servers what= saves=[89]\.' advice
	grep -Eq '^suspect kind=server what=ps[23] saves=0\.0' advice
	# The file says less than the job had.
	sed -i s/SERVERS=4/SERVERS=3/ state/job.env
	run -69 trainctl advise --state-dir state
	[[ $output == *"can't be simulated: the log has batches of ps3, and the job 4 workers and 3 servers" ]]
	# It need not be over, and may have died in the middle of a line.
	advised servers=2 'node id=w2 speed=250'
	head -c 40000 state/job.log >half
	mv half state/job.log
	run -0 --separate-stderr trainctl advise --state-dir state
	[[ $output == *'is=machine kind=worker what=w2'* ]]
	# A worker that came and died before it trained.
	printf 'event role=worker id=w9 kind=%s at=1\n' 'start life=0' 'exit life=0' 'ready life=1' >came
	sed -i '/^phase name=running/r came' state/job.log
	trainctl report --state-dir state 2>/dev/null | grep -q '^node .*id=w9 restarts=1'
	run -0 --separate-stderr trainctl advise --state-dir state
	[[ $output == *'is=machine kind=worker what=w2'* ]]
	# A name that would need a million workers, and a change that says so.
	sed '$d' state/job.log >whole # the last line was cut off
	for more in 'series role=worker id=w999999 size=1 samples=100 batches=9 time-sum=1 last=1000000001 at=1000000001
series role=worker id=w999999 size=1 samples=200 batches=19 time-sum=2 last=1000000002 at=1000000002' \
		'scaled workers=999999 servers=2 from-workers=4 seconds=1 at=1000000002'; do
		{ cat whole; echo "$more"; } >state/job.log
		run -69 bash -c 'grep -q __asan_init "$(command -v trainctl)" || ulimit -v 1000000; exec trainctl advise --state-dir state'
		[[ $output == *"this job can't be simulated: the log "*999999* ]]
	done
	# Of another job, and of none.
	sed 's/job=sim/job=other/' whole >state/job.log
	run -65 trainctl advise --state-dir state
	[[ $output == *'the log is of job other, its job file of sim' ]]
	head -c 100000 /dev/urandom >state/job.log
	run -65 trainctl advise --state-dir state
	: >state/job.log
	run -1 trainctl advise --state-dir state
	cp whole state/job.log
	# Nothing measured, no job file, none at all.
	grep '^begin\|^phase' state/job.log >half
	mv half state/job.log
	run -1 trainctl advise --state-dir state
	rm state/job.env
	run -66 trainctl advise --state-dir state
	run -66 trainctl advise --state-dir nope
	run -64 trainctl advise --state-dir state more
}

@test "trainctl advise: what became of the nodes is as it was" {
	# How near the copy must come: seconds of error.
	near() { plrec where type=advice <advice | plrec tsv error | between -0.001 "$1"; }
	nodes() { plrec where type=option kind=workers <advice | plrec tsv what | sort -n | paste -sd' '; }
	advised 'servers=2 most-workers=6' 'cost start=1' 'scale workers=6 at=4.2'
	near 0.25
	[ "$(nodes)" = '4 5 6 7 12' ]
	plrec where type=option kind=workers what=6 <advice | plrec tsv saves | between 1.4 1.6
	trainctl advise --state-dir state --cluster | grep -q '^scale workers=6 servers=2 at=4.2'
	advised 'servers=2 most-workers=4' 'scale workers=2 at=4.2'
	near 0.25
	[ "$(nodes)" = '1 2 3 4' ]
	advised 'servers=2 epochs=5' 'cost start=1' 'event kind=kill id=w1 at=4' 'event kind=restart id=w2 at=6.3' 'event kind=leave id=w3 at=20'
	near 0.25
	trainctl advise --state-dir state --cluster | grep '^event ' >events
	printf 'event kind=%s id=%s at=%s.%s00000\n' kill w1 4 0 restart w2 6 3 leave w3 20 0 | diff events -
	plrec where type=suspect kind=restarts <advice | plrec tsv saves | between 11 11.5
	# A server is handed over: pulls wait, and no commit costs more for it. A checkpoint is the same.
	advised 'servers=2 epochs=5 checkpoint=7' 'cost pull=0.01 push=0.01 apply=0.001 start-server=0.5 hand-over=2 save=0.4' \
		'event kind=restart id=ps1 at=6.3'
	echo CHECKPOINT=7 >>state/job.env
	trainctl advise --state-dir state >advice
	near 0.25
	trainctl advise --state-dir state --cluster | grep -q '^event kind=restart id=ps1 at=6.3'
	trainctl advise --state-dir state --cluster | plrec where type=cost >costs
	[ "$(plrec tsv apply hand-over save <costs)" = $'0.001000\t2.000000\t0.400000' ]
	plrec tsv commit <costs | between -0.001 0.0005
	# A solution's restart was decided once, by itself.
	advised 'servers=2 epochs=20 solution=antdt-nd restart-window=5 short=1 long=5' 'persistent nodes=w1 life=0 sleep=0.4 intensity=1' 'cost start=2'
	sed -i 's/^SOLUTION=.*/SOLUTION=antdt-nd,every:1/' state/job.env
	printf '%s\n' KILL_RESTART=window:5 MONITOR=short:1,long:5 >>state/job.env
	trainctl advise --state-dir state >advice
	near 0.5
	trainctl advise --state-dir state --cluster >again
	[ "$(grep -c '^event kind=restart id=w1 ' again)" = 1 ]
	[ "$(trainsim <again | grep -c '^restart ')" = 1 ]
}

@test "trainctl advise: waiting for rows, and what a checkpoint costs beside its stall" {
	# Without waiting, 40 s. Workers wait for their rows in turn, so each waits for those of others, too.
	advised 'servers=2 epochs=4' 'transient p=0.2 on=0.3 every=0.3 sleep=0.1 intensity=1'
	awk '/^series role=worker/ { for (i = 2; i <= NF; i++) { split($i, f, "="); v[f[1]] = f[2] }
			sub(/compute-sum=[^ ]*/, "compute-sum=" v["samples"] / 1000) }
		{ print }' state/job.log >job.log
	mv job.log state
	trainctl advise --state-dir state >advice
	grep -q '^advice job=sim is=job kind=data ' advice
	plrec where type=advice <advice | plrec tsv of | between 60 62
	plrec where type=suspect kind=data <advice | plrec tsv saves | between 20 22.5
	# While one is written, for a second, a batch takes twice as long.
	local busy=() at w
	for at in 5 10 15 20 25 30 35; do
		for w in w0 w1 w2 w3; do busy+=("node id=$w at=$at delay=0.1" "node id=$w at=$((at + 1)) delay=0"); done
	done
	advised 'servers=2 epochs=4 checkpoint=5' 'cost save=0.01' "${busy[@]}"
	awk '{ for (i = 2; i <= NF; i++) if ($i ~ /^at=/) now = substr($i, 4) + 0 }
		/^checkpoint / { saved = $0; at = now + 1; next }
		saved && now >= at { sub(/at=.*/, sprintf("seconds=1 at=%.6f", at), saved); print saved; saved = "" }
		{ print }' state/job.log >job.log
	mv job.log state
	echo CHECKPOINT=5 >>state/job.env
	trainctl advise --state-dir state >advice
	grep -q '^advice job=sim is=job kind=checkpoints ' advice
	plrec where type=advice <advice | plrec tsv of | between 43 44
	plrec where type=suspect kind=checkpoints <advice | plrec tsv saves | between 3.2 3.7
	plrec where type=option kind=checkpoint what=10 <advice | plrec tsv saves | between 1.4 2
}

@test "trainctl advise: only training counts, not what lies between two runs, nor what stood still" {
	advised servers=2 'node id=w2 speed=250'
	plrec where type=advice <advice | plrec tsv of >whole
	# It goes on after 1000 s, and later stands still for 100 s.
	awk '/^begin/ { begin = $0; sub(/at=.*/, "", begin) }
		{
			for (i = 2; i <= NF; i++)
				if ($i ~ /^(at|last)=1/)
					$i = sprintf("%s=%.6f", substr($i, 1, index($i, "=") - 1), at = substr($i, index($i, "=") + 1) + more)
			print
		}
		/^row/ && ++rows == 5 {
			more += 1000
			printf "%sat=%.6f\nphase name=running at=%.6f\n", begin, at + 1000, at + 1000
			for (i = 0; i < 4; i++)
				printf "event role=worker id=w%d kind=start life=0 at=%.6f\nevent role=worker id=w%d kind=ready life=0 at=%.6f\n",
					i, at + 1000, i, at + 1000
		}
		/^row/ && rows == 10 {
			more += 100
			printf "stood seconds=100 iteration=9 why=nobody at=%.6f\n", at + 100
		}' state/job.log >two
	mv two state/job.log
	trainctl advise --state-dir state >advice
	plrec where type=advice <advice | plrec tsv of >again
	awk 'NR == 1 { a = $1 } NR == 2 { exit !($1 > a - 0.5 && $1 < a + 0.5) }' whole again
	grep -q '^advice job=sim is=machine kind=worker what=w2 ' advice
}

@test "trainctl advise: what a batch takes however small it is" {
	# What the job takes in truth with these fields, and whether what it would have saved is told right. BATCH: of four().
	as_told() { # WHERE... -- FIELDS RECORD...
		local where=() jct
		while [ "$1" != -- ]; do where+=("$1") && shift; done
		jct=$(four "sync=bsp every=1 epochs=5 servers=2${2:+ $2}" "${@:3}" | sed "1s/batch=400/batch=${BATCH-400}/" | field jct)
		plrec where "${where[@]}" <advice | plrec tsv saves error >figures
		awk -v was="$(tail -n 1 state/job.log | plrec tsv jct)" -v jct="$jct" \
			'{ d = was - jct - $1; exit !((d < 0 ? -d : d) <= $2) }' figures
	}
	again() { # KEY=VALUE...: with these in the job file
		sed -i /SOLUTION=/d state/job.env
		printf '%s\n' "$@" >>state/job.env
		trainctl advise --state-dir state >advice
	}
	local jobs='servers=2 epochs=5' decides='solution=antdt-nd short=1 long=1000'
	local sleeps=('persistent nodes=w1 sleep=0.2 intensity=1' 'cost pull=0.01')
	# A job whose sizes have changed says it.
	advised "$jobs $decides" "${sleeps[@]}"
	again SOLUTION=antdt-nd,every:1 MONITOR=short:1,long:1000
	as_told type=option what=none -- '' "${sleeps[@]}"
	cut -f 2 figures | between 0 6
	trainctl advise --state-dir state --cluster | grep -Eq '^node id=w1 at=0.000000 delay=0.205[0-9]* speed=(1000|999)'
	# Of one that was restarted nobody knows whether it would still be slow.
	sleeps=('persistent nodes=w1 life=0 sleep=0.4 intensity=1' 'cost start=2')
	advised "$jobs ${decides/1000/5} restart-window=5" "${sleeps[@]}"
	again SOLUTION=antdt-nd,every:1 KILL_RESTART=window:5 MONITOR=short:1,long:5
	grep -q '^restart ' state/job.log
	as_told type=option what=none -- '' "${sleeps[@]}"
	# One whose sizes were always the same leaves it open, and the figures say how much.
	sleeps=('persistent nodes=w1 sleep=0.2 intensity=1')
	advised "$jobs" "${sleeps[@]}"
	BATCH=200 as_told type=option what=200 -- '' "${sleeps[@]}"
	BATCH=800 as_told type=option what=800 -- '' "${sleeps[@]}"
	as_told type=option what=antdt-nd -- 'solution=antdt-nd' "${sleeps[@]}"
	# A pull is no part of it.
	advised "$jobs" 'cost pull=0.05 push=0.05'
	as_told type=suspect kind=barrier --
}

@test "trainctl advise: antdt-dd, where workers have measured their devices" {
	local devices=('device nodes=w0,w1 speed=1200 launch=0.02 saturation=32 memory=60 type=fast'
		'device nodes=w2,w3 speed=400 launch=0.02 saturation=32 memory=60 type=slow')
	advised servers=2 "${devices[@]}"
	[ "$(plrec where what=antdt-dd <advice)" = 'option kind=solution what=antdt-dd saves= error=' ]
	run -0 script -qec 'trainctl advise --state-dir state' /dev/null
	[[ $output == *'SOLUTION=antdt-dd '*'not known'*'SOLUTION profile:on'* ]]
	advised 'servers=2 profile=1 solution=antdt-nd lambda=99' "${devices[@]}"
	sed '/^node /d' state/job.log >series # where nobody decides, they are in the course of the job
	cp advice decided
	cp state/job.log whole
	cp series state/job.log
	trainctl advise --state-dir state >advice
	plrec where what=antdt-dd <advice | plrec tsv saves | between 1 100
	cp whole state/job.log
	cp decided advice
	local jct=$(tail -n 1 state/job.log | plrec tsv jct)
	four "servers=2 sync=bsp solution=antdt-dd every=1" "${devices[@]}" | field jct >would
	plrec where what=antdt-dd <advice | plrec tsv saves | between "$(awk -v a="$jct" -v b="$(<would)" 'BEGIN { print a - b - 0.1 }')" \
		"$(awk -v a="$jct" -v b="$(<would)" 'BEGIN { print a - b + 0.1 }')"
}

@test "trainctl advise: of a very long job only the end is simulated, which it says" {
	advised servers=2 'node id=w2 speed=250'
	# As if each batch had been ten thousand: four million.
	awk '/^series .*role=worker/ { for (i = 2; i <= NF; i++) if ($i ~ /^batches=/) $i = "batches=" substr($i, 9) * 10000 }
		{ print }' state/job.log >long
	mv long state/job.log
	trainctl advise --state-dir state >advice
	plrec where type=advice <advice | plrec tsv left-out of error >said
	awk '{ exit !($1 > 2.5 * $2 && $1 < 3.5 * $2 && $3 < 0.05 * $2) }' said
	grep -q '^advice job=sim is=machine kind=worker what=w2 ' advice
}

@test "trainctl check --cluster: a job file as a cluster, whose rows are counted" {
	{ echo y,a; for i in {1..400}; do echo "$((i % 2)),$i"; done; } >rows.csv
	printf '%s\n' JOB=copied DATA=rows.csv FORMAT=csv LABEL=y DENSE=a MODEL=lr WORKERS=2 SYNC=ssp:2 BATCH=40,shard:2 \
		EPOCHS=3 SOLUTION=antdt-nd,every:5,lambda:1.7 >job.env
	trainctl check job.env --cluster --run-dir none >c
	[ "$(wc -l <c)" = 1 ]
	[[ $(<c) == "job job=copied sync=ssp:2 workers=2 servers=1 hosts=1 samples=400 batch=40 shard=80 epochs=3 "*" every=5 "*" lambda=1.7 "* ]]
	echo 'cost sample=0.001' >>c
	[ "$(trainsim -s <c | plrec tsv samples)" = 1200 ]
	sed 's/^SYNC=.*/SYNC=allreduce,delay:1,late:1.5/;s/antdt-nd,every:5,lambda:1.7/none/' job.env >late.env
	trainctl check late.env --cluster --run-dir none | grep -q '^job .* sync=allreduce .* delay=1 late=1.5 '
	sed -i 's/^DATA=.*/DATA=gone.csv/' job.env
	run -66 trainctl check job.env --cluster --run-dir none
}

@test "interrupted, it tells what was simulated so far" {
	printf 'job workers=200 samples=100000000000 batch=20000 sync=bsp\ncost sample=0.001\n' >c
	for signal in INT TERM; do
		start sim bash -c 'exec trainsim <c >log'
		wait_for "grep -q \"^row .*iteration=[1-9]\" log"
		kill -$signal "$PID"
		wait "$PID"
		tail -n 1 log >last
		[ "$(plrec tsv state <last)" = stopped ]
		[ "$(plrec tsv iterations <last)" -gt 0 ]
		rm log
	done
	# Its reader does not read for a while, so that it waits in the middle of a line.
	mkfifo pipe
	sleep 1000 <>pipe &
	local holds=$!
	start sim bash -c 'exec trainsim <c >pipe'
	wait_for "grep -q trainsim /proc/$PID/comm && grep -q '^State:.S' /proc/$PID/status"
	kill -INT "$PID"
	exec {reads}<pipe # before nobody has it open
	kill $holds
	tail -n 1 <&$reads >last
	exec {reads}<&-
	wait "$PID"
	[ "$(plrec tsv state <last)" = stopped ]
}

@test "a solution is asked every so many seconds, also where sums of times are rounded" {
	cat >c <<-'END'
		job workers=20 servers=8 samples=4500000 epochs=6 batch=81920 shard=409600 solution=antdt-nd every=300 short=300 lambda=1.5
		cost sample=0.000508 start=120 message=0.0002 commit=0.001
		transient intensity=0.3
		persistent nodes=w3 life=0 intensity=0.3
	END
	run -0 timeout 300 trainsim <c
	[ "$(plrec tsv state <<<"${lines[-1]}")" = done ]
	[ "$(grep -c ^decision <<<"$output")" -ge 3 ]
}

@test "a decision may set the sizes of more workers than a job's lead could be told of at once" {
	printf '%s\n' 'job workers=50000 samples=5000000 batch=500000 solution=antdt-nd every=1' 'cost sample=0.01' \
		'transient on=15 every=30 p=0.3 sleep=1.5 intensity=0.1' >c
	trainsim --until 4 <c >log
	[ "$(grep -c '^action kind=adjust-bs' log)" -ge 50000 ]
	not grep -q '^decided.*skipped' log
}
