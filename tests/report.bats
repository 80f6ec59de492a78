# trainctl report: what a person reads, and pictures. Its records are in restarts.bats.
load helper

report() { trainctl report --state-dir state "$@"; }

# made [REASON] [ID]: a log. Two workers train 100 and 400 samples a second, the same batch, until
# 60 s; then sizes are set, and they take as much as they can. One dies at 100 s.
made() {
	mkdir -p state
	awk -v reason="${1-antdt-nd:%20w0%20is%20slow}" -v slow="${2-w0}" '
	function series(id, batches, samples, time, wait, at) {
		printf "series role=worker id=%s state=up size=50 samples=%d batches=%g time-sum=%g compute-sum=%g comm-sum=%g wait-sum=%g last=%d at=%d\n",
			id, samples, batches, time, time * 0.75, time * 0.25, wait, at, at
	}
	function event(role, id, kind, at) { print "event role=" role " id=" id " kind=" kind " life=0 at=" at }
	BEGIN {
		print "begin job=uneven workers=2 servers=1 batch=100 shard=1000 sync=bsp solution=antdt-nd at=1000"
		print "phase name=servers at=1001"
		event("server", "ps0", "start", 1001); event("server", "ps0", "ready", 1002)
		print "phase name=running at=1010"
		event("worker", slow, "start", 1010); event("worker", "w1", "start", 1010)
		event("worker", slow, "ready", 1010); event("worker", "w1", "ready", 1010)
		for (t = 1; t <= 50; t++) {
			series(slow, t, 100 * t, t, 0, 1010 + t)
			series("w1", t, 100 * t, t / 4, t * 0.75, 1010 + t)
			if (t % 10 == 0) print "row epochs=1 loss=" 0.7 - t / 500 " samples-done=" 200 * t " samples=60000 at=" 1010 + t
		}
		print "decision solution=antdt-nd at=1060"
		print "action kind=adjust-bs id=" slow " size=20 accum=1 reason=" reason
		print "action kind=adjust-bs id=w1 size=80 accum=1 reason=" reason
		print "decided actions=2 at=1060"
		for (t = 1; t <= 50; t++) {
			series(slow, 50 + t, 5000 + 100 * t, 50 + t, 0, 1060 + t)
			series("w1", 50 + t, 5000 + 400 * t, 12.5 + t, 37.5, 1060 + t)
			if (t % 10 == 0) print "row epochs=1 loss=" 0.6 - t / 500 " samples-done=" 10000 + 500 * t " samples=60000 at=" 1060 + t
			if (t == 40) {
				print "event role=worker id=w1 kind=exit signal=9 life=0 at=1100"
				event("worker", "w1", "restart", 1100); event("worker", "w1", "ready", 1100.5)
			}
		}
		print "phase name=stopping at=1110"
		print "summary job=uneven state=done jct=100 samples=35000 shards-done=35 shards=35 held=0 restarts=1 auc=0.75 logloss=0.5 at=1112"
	}' >state/job.log
}

need_gnuplot() { command -v gnuplot >/dev/null || skip "gnuplot is not installed"; }

# turned: the log of a job whose nodes changed.
turned() {
	mkdir -p state
	printf '%s\n' 'begin job=turns workers=2 servers=1 batch=64 sync=bsp solution=none at=1000' \
		'phase name=running at=1001' \
		'scaled workers=4 servers=2 from-workers=2 from-servers=1 batch=64 lr-factor=1 seconds=1.5 moved-bytes=2097152 stall=0.004 reason=asked%20for at=1010' \
		'scaled workers=4 servers=2 from-workers=4 from-servers=3 batch=64 lr-factor=1 seconds=9 reason=asked%20for failed=ps2:%20no%20room at=1012' \
		'scaled workers=5 servers=2 from-workers=4 from-servers=2 batch=64 lr-factor=1 seconds=1 reason=brain:%20faster at=1014' \
		'scale-refused workers=5000 code=no-room reason=asked%20for at=1020' \
		'oom id=w1 step=1 limit=3 memory=536870912 memory-before=268435456 at=1030' \
		'oom id=w2 step=2 limit=3 size=8 accum=2 at=1031' \
		'oom id=ps0 step=3 limit=3 servers=4 servers-before=2 at=1032' \
		'resize id=w0 cores=1.5 memory=0 reason=as%20asked%20%3Cb%3E at=1033' \
		'resize id=w3 cores=2 memory=0 reason=brain:%20few-cores at=1033' \
		'spare id=w3 for=s0 waited=12 at=1040' \
		'more-host state=asked partition=spot at=1050' \
		'more-host state=granted host=node7 job=99 at=1051' \
		'host name=a state=there launcher=local trains=1 at=1052' \
		'host name=b state=avoided seconds=600 id=w2 why=it%20hung at=1053' \
		'host-test name=c compute=1 memory=1 link=1 state=good why= at=1054' \
		'host-test name=d compute=1 memory=1 link=1 state=bad why=slow at=1054' \
		$'placed at=1055\tw2 runs on a: b is avoided' \
		'phase name=stopping at=1060' 'summary job=turns state=done jct=60 samples=64 at=1060' >state/job.log
}

# ---- words ----

@test "words: what it took, where the time went, what was decided, what failed" {
	made
	run -0 report --text
	[ "${lines[0]}" = "uneven: done in 1 min 52 s, 35.0k samples" ]
	[ "${lines[1]}" = "  2 workers, 1 server, batches of 100, bsp, SOLUTION=antdt-nd" ]
	[ "${lines[2]}" = "  TEST: AUC 0.7500, log loss 0.5000" ]
	# 35000 samples at 500 a second, and 12 s of all else
	grep -q '^   1 min 22 s   without stragglers (1.3[67] times as fast)$' <<<"$output"
	grep -q '^         30 s   27%   waiting for slower workers, mostly for w0$' <<<"$output"
	grep -q '^   1 min 10 s   62%   training, at the speed of all workers together$' <<<"$output"
	grep -q '^  w0  *10.0k .* 1.0 s  *100 ' <<<"$output"
	grep -q '^  w1  *25.0k .* 400 .* 37%  *1$' <<<"$output"
	grep -q '^        1 min   batch sizes set, from 20 (w0) to 80 (w1): from 200 to 500$' <<<"$output"
	grep -q '^                samples/s (x2.50); saved 1 min 15 s$' <<<"$output"
	grep -q '^  *antdt-nd: w0 is slow$' <<<"$output"
	grep -q '^  *1 min 40 s   w1 was killed by signal 9, SIGKILL; ready again after 500 ms$' <<<"$output"
}

@test "words: a server whose standby took over, and one whose end took all back" {
	mkdir -p state
	printf '%s\n' 'begin job=standby workers=1 servers=2 batch=64 sync=bsp solution=none at=1000' \
		'event role=server id=ps1 kind=start life=0 at=1001' 'event role=server id=ps1 kind=ready life=0 at=1002' \
		'standby id=ps1 life=1 host=a at=1003' 'standby-ended id=ps1 life=1 host=a signal=9 at=1004' \
		'standby id=ps1 life=2 host=a at=1005' \
		'event role=server id=ps1 kind=exit life=0 signal=11 at=1010' 'event role=server id=ps1 kind=ready life=2 at=1010.25' \
		'event role=server id=ps1 kind=exit life=2 signal=9 at=1020' 'rollback incarnation=2 at=1020' \
		'event role=server id=ps1 kind=restart life=3 at=1020.1' 'event role=server id=ps1 kind=ready life=3 at=1020.5' \
		'phase name=stopping at=1060' 'summary job=standby state=done jct=60 samples=64 at=1060' >state/job.log
	run -0 report --text
	tr -s ' \n' ' ' <<<"$output" >text
	grep -q 'What failed .* ps1 was killed by signal 11, SIGSEGV; its standby took over, and served after 250 ms ' text
	grep -q ' ps1 was killed by signal 9, SIGKILL; ready again after 500 ms ' text
	grep -q ' all servers go back to a checkpoint ' text
	report --records | grep -q '^restarted at=1010.000000 role=server id=ps1 why=signal-11 seconds=0.250000 down=0.250000 standby=1$'
	[ "$(report --records | grep -c 'standby=1$')" -eq 1 ]
}

@test "words: time in collectives, by rank and host, is no straggler's" {
	mkdir -p state
	awk 'BEGIN {
		print "begin job=link workers=2 servers=1 batch=100 sync=bsp solution=none at=1000"
		print "phase name=running at=1000"
		for (i = 0; i < 2; i++)
			for (k = split("start ready", kind); k; k--)
				print "event role=worker id=w" i " kind=" kind[3 - k] " life=0 host=h" i " at=1000"
		for (t = 1; t <= 50; t++)
			for (i = 0; i < 2; i++)
				printf "series role=worker id=w%d state=up size=50 samples=%d batches=%d time-sum=%g compute-sum=%g comm-sum=%g wait-sum=0 last=%d at=%d\n",
					i, 500 * t, 10 * t, t / 5, t / 5, t * 0.8, 1000 + t, 1000 + t
		print "phase name=stopping at=1050"
		print "summary job=link state=done jct=50 samples=50000 at=1050"
	}' >state/job.log
	run -0 report --text
	grep -q '^ *40 s *80%  *in collectives: sums between trainers$' <<<"$output"
	grep -q '^ *50 s *without stragglers (1.00 times as fast)$' <<<"$output"
	grep -q '^ .* waiting  collective  host$' <<<"$output"
	grep -q '^  w1 .* 80 ms  h1$' <<<"$output"
}

@test "words: the slow link of a host is named, with what it cost" {
	mkdir -p state
	awk 'BEGIN {
		print "begin job=ring workers=3 replicas=3 fabric=plain batch=100 sync=allreduce solution=none at=1000"
		print "phase name=running at=1000"
		for (t = 1030; t <= 1060; t += 30) {
			s = " median=20971520 sent-bytes=41943040 received-bytes=41943040 "
			print "link host=h0 out=2097152 in=20971520" s "out-cost=18 in-cost=0 at=" t
			print "link host=h1 out=2097152 in=2097152" s "out-cost=18 in-cost=18 fabric-saves=3.5 at=" t
			print "link host=h2 out=20971520 in=" s "out-cost=0 in-cost=0 at=" t
		}
		print "phase name=stopping at=1060"
		print "summary job=ring state=done jct=60 samples=50000 at=1060"
	}' >state/job.log
	report --text | tr -s ' \n' ' ' >text
	grep -qF 'What the network cost 36 s more for what went over the slow link of h1: 80 MiB sent at 2.0 MiB/s, 80 MiB received at 2.0 MiB/s, where the median link carries 20 MiB/s 7.0 s less with FABRIC=mlfabric: an estimate' text
	report --records >records
	grep -q '^link host=h0 out=2097152 in=20971520 median=20971520 sent-bytes=83886080 received-bytes=83886080 out-cost=36.000000 in-cost=0.000000$' records
	grep -q '^report .* fabric-saves=7.000000' records
	grep -q '^link host=h2 out=20971520 in= ' records
	sed -i 's/fabric=plain/fabric=mlfabric/; s/cost=18/cost=0.1/g' state/job.log
	report --text | tr -s ' \n' ' ' | grep -qF 'What the network cost 7.0 s saved by FABRIC=mlfabric: an estimate'
	# The next run may have another FABRIC.
	sed -i.one '1 s/=mlfabric/=plain/; 5 a begin job=ring workers=3 fabric=mlfabric sync=allreduce solution=none at=1031' \
		state/job.log
	report --text | tr -s ' \n' ' ' | grep -q '3.5 s saved by FABRIC=mlfabric: .* 3.5 s less with FABRIC=mlfabric: '
	mv state/job.log.one state/job.log
	# Without a bound of the delay FABRIC has no effect.
	sed -i 's/fabric=mlfabric //; s/allreduce/asp/' state/job.log
	report --text | tr -s ' \n' ' ' | grep -qF '7.0 s less with FABRIC=mlfabric and a bound of the delay (SYNC delay): an estimate'
	sed -i 's/saves=3.5/saves=0.2/' state/job.log
	not grep -q 'What the network cost' <<<"$(report --text)"
}

@test "words: starting is no straggler; busy and waiting are parts of one whole" {
	mkdir -p state
	awk 'BEGIN { # that they were ready was seen late
		print "begin job=late workers=2 servers=1 batch=100 sync=bsp solution=none at=1000"
		print "phase name=running at=1000"
		for (i = 0; i < 2; i++) {
			print "event role=worker id=w" i " kind=start life=0 at=1000"
			print "event role=worker id=w" i " kind=ready life=0 at=1005"
			print "series role=worker id=w" i " state=up size=50 samples=1000 batches=20 time-sum=4 compute-sum=4 comm-sum=0 wait-sum=6 last=1010 at=1010"
		}
		print "phase name=stopping at=1010"
		print "summary job=late state=done jct=8 samples=2000 at=1010"
	}' >state/job.log
	run -0 report --text
	grep -q '^ *10 s *as it was$' <<<"$output"
	grep -q '^ *8.0 s *of these, from the first shard to the last (jct)$' <<<"$output"
	grep -q '^ *10 s *without stragglers (1.00 times as fast)$' <<<"$output"
	grep -q '^ *5.0 s *50%  *workers starting$' <<<"$output"
	grep -q '^  w0 .* 40%  *60%  *0$' <<<"$output"
}

@test "words: how its nodes changed, and why" {
	turned
	report --text | tr -s ' \n' ' ' >text
	says() { grep -qF "$1" text; }
	says 'How its nodes changed 10 s from 2 to 4 workers, 1 to 2 servers; it took 1.5 s; 2.0 MiB of parameters moved, workers waited 4.0 ms at most asked for'
	says ' 3 to 2 servers; it took 9.0 s; not done: ps2: no room asked for'
	says ' not scaled to 5000 workers: refused (no-room) asked for'
	says ' w1 had no memory left: 512 MiB instead of 256 MiB (step 1 of 3)'
	says ' w2 had no memory left: batches in 2 steps of 8 samples (step 2 of 3)'
	says ' ps0 had no memory left: 4 servers instead of 2 (step 3 of 3)'
	says ' w0 may use 1.5 cores as asked <b>'
	says ' w3, which had stood ready for 12 s, took the place of s0'
	says ' Slurm: a further host was asked, of partition spot'
	says ' Slurm: host node7 of allocation 99: granted'
	says ' host b: avoided for 10 min, because of w2 it hung'
	says ' host d is bad, as its self-test says slow'
	says ' w2 runs on a: b is avoided'
	# What a brain did is told with its plans; what there is, is no change.
	not grep -qE '4 to 5 workers|w3 may use|host a|host c' text
	report >records
	grep -q '^report .* scaled=2 ooms=3 spares-used=1$' records
	grep -q '^oom id=w1 step=1 limit=3 memory=536870912 ' records
	[ "$(grep -c '^scaled ' records)" = 3 ]
}

@test "words: a spare that took a place is a worker, from then on" {
	mkdir -p state
	awk 'function event(role, id, kind, at) { print "event role=" role " id=" id " kind=" kind " life=0 at=" at }
	function series(role, id, batches, at) {
		printf "series role=%s id=%s state=up size=50 samples=%d batches=%d time-sum=%d compute-sum=%d comm-sum=0 wait-sum=0 last=%d at=%d\n",
			role, id, 50 * batches, batches, batches, batches, at, at }
	BEGIN {
		print "begin job=spared workers=2 servers=1 batch=100 sync=bsp solution=none at=1000"
		print "phase name=running at=1000"
		event("worker", "w0", "start", 1000); event("worker", "w1", "start", 1000); event("spare", "s0", "start", 1000)
		event("worker", "w0", "ready", 1000); event("worker", "w1", "ready", 1000); event("spare", "s0", "ready", 1000)
		for (t = 1; t <= 20; t++) { series("worker", "w0", t, 1000 + t); series("worker", "w1", t, 1000 + t) }
		print "event role=worker id=w1 kind=exit signal=9 life=0 at=1020"
		print "spare id=s0 for=w1 waited=20 at=1020"
		event("worker", "s0", "joins", 1020); event("worker", "s0", "ready", 1020)
		event("spare", "w1", "restart", 1021); event("spare", "w1", "ready", 1022)
		for (t = 1; t <= 20; t++) { series("worker", "w0", 20 + t, 1020 + t); series("worker", "s0", t, 1020 + t) }
		print "phase name=stopping at=1040"
		print "summary job=spared state=done jct=40 samples=4000 restarts=1 at=1040"
	}' >state/job.log
	run -0 report --text
	# All three, in the time in which each of them trained; nobody waits for a spare.
	grep -q '^  s0  *1.00k  *50  *1.0 s  *50  *100%' <<<"$output"
	grep -q '^  w0  *2.00k  *50  *1.0 s  *50  *100%' <<<"$output"
	grep -q '^  w1  *1.00k  *50  *1.0 s  *50  *100%' <<<"$output"
	grep -qE '^ +(39|40) s +(99|100)%   training, at the speed of all workers together' <<<"$output"
	grep -q 'w1 was killed by signal 9, SIGKILL; ready again after 2.0 s' <<<"$output"
}

@test "the end: machine or job, why, what next, and the evidence; as records, too" {
	made
	report --text | sed -n '/^Machine or job?$/,$p' >text
	grep -q '^ *Verdict   machine: w0 takes 4.0 times as long for a sample as the median$' text
	grep -q '^ *worker; it cost 49 s of 1 min 52 s (43%)$' text
	grep -q '^ *Why   it takes longer to compute: ' text
	grep -q '^ *Next   trainctl logs w0 -j uneven$' text # it has a solution already
	grep -q '^  a sample  *2.5 ms  *10 ms  w0  *4.00$' text
	grep -q '^ *computing  *' text
	report >records
	grep -q '^verdict kind=worker machine=1 id=w0 seconds=49.* next=trainctl%20logs%20w0%20-j%20uneven$' records
	grep -q '^evidence name=sample median=0.0025 worst=0.01 id=w0$' records
	# The same without a solution; and an id that is no word for a shell.
	sed -i 's/solution=antdt-nd/solution=none/' state/job.log
	report --text | grep -q '^ *Next   SOLUTION=pace$'
	made x 'w0;id'
	report --text | grep -qF "Next   trainctl logs 'w0;id' -j uneven"
	# All alike.
	sed -i '/id=w1 /d; s/w0;id/w0/' state/job.log
	report --text | grep -q '^ *Verdict   job, no machine: all workers are alike, and busy; training'
	report --text | grep -q '^ *Next   WORKERS=4$'
	# Alike, and a quarter of each batch goes into getting rows.
	sed -i 's/comm-sum=[^ ]*/comm-sum=0/' state/job.log
	report --text >text
	grep -q '^ *Verdict   job, no machine: workers wait for shards and rows; it cost 25 s' text
	grep -q '^ *Next   trainctl logs -j uneven$' text
}

@test "records on a pipe, words on a terminal; each where it is asked for" {
	made
	report | tail -n 1 | grep -q '^report job=uneven state=done '
	script -qec "trainctl report --state-dir state" /dev/null >screen </dev/null
	grep -q '^uneven: done in ' screen
	script -qec "trainctl report --state-dir state --records" /dev/null >screen </dev/null
	grep -q '^report job=uneven ' screen
	run -64 report --records --html x.html
	[ ! -e x.html ]
}

@test "a line a course: blocks where letters are UTF-8, ASCII elsewhere" {
	made
	LC_ALL=C report --text >ascii
	grep -q '^  loss      0.68 #[-_.=+*%#]*_ 0.5$' ascii
	not grep -q '[^ -~]' ascii
	LC_ALL=C.UTF-8 report --text >utf8
	grep -q '^  loss      0.68 █.*▁ 0.5$' utf8
	grep -q '^  speed  *▄.*█.* samples/s' utf8
}

@test "40 and 200 columns: nothing is wider" {
	made 'antdt-nd:%20w0%20takes%20twice%20the%20mean%20per%20sample%20over%20one%20second%20and%20more'
	local columns
	for columns in 40 80 200; do
		LC_ALL=C script -qec "stty cols $columns; trainctl report --state-dir state" /dev/null </dev/null |
			tr -d '\r' >screen
		grep -q '^uneven: done in ' screen
		not grep -q "^.\{$((columns + 1))\}" screen
	done
}

@test "many workers: the slowest; many decisions: those that changed most" {
	mkdir state
	awk 'BEGIN {
		print "begin job=many workers=60 servers=1 batch=600 sync=bsp solution=x at=1000"
		print "phase name=running at=1000"
		for (t = 1; t <= 100; t++) {
			for (w = 0; w < 60; w++)
				printf "series role=worker id=w%d state=up size=10 samples=%d batches=%d time-sum=%g compute-sum=%g comm-sum=0 wait-sum=0 last=%d at=%d\n",
					w, 100 * t, 10 * t, t * (10 - w / 10), t * (10 - w / 10), 1000 + 10 * t, 1000 + 10 * t
			print "decision solution=x at=" 1000 + 10 * t
			print "action kind=adjust-bs id=w1 size=" t
			print "decided actions=1 at=" 1000 + 10 * t
		}
	}' >state/job.log
	run -0 report --text
	grep -q '^The slowest workers$' <<<"$output"
	grep -q '^  w15 ' <<<"$output"
	not grep -q '^  w16 ' <<<"$output"
	grep -q '^  and 44 faster ones$' <<<"$output"
	grep -q '^  and 92 others; --records shows all$' <<<"$output"
	[ "${#lines[@]}" -lt 60 ]
}

@test "a log without measurements, one that has just begun, none" {
	mkdir state
	printf '%s\n' 'begin job=old workers=2 servers=1 batch=64 sync=bsp solution=none at=1000' \
		'phase name=running at=1001' 'row loss=0.5 samples-done=640 samples=1000 at=1021' >state/job.log
	run -0 report --text
	[ "${lines[0]}" = "old: not ended after 21 s (it runs, or was killed), 640 samples" ]
	[[ $output == *"how long it could have taken is not known"* ]]
	grep -q '^ *Verdict   not known: the log has no measurements of workers$' <<<"$output"
	printf 'phase name=las' >>state/job.log
	run -0 report --text
	[[ $output == *"the log ends in the middle of a line"* ]]
	printf 'begin job=new at=1000\n' >state/job.log
	run -0 report --text
	[ "${lines[0]}" = "new: not ended after 0 s (it runs, or was killed), 0 samples" ]
	: >state/job.log
	run -1 report --text
	rm state/job.log
	run -66 report --text
}

@test "a log whose beginning is gone: what is left of it counts" {
	made
	cp -r state whole
	{
		echo 'begin job=uneven workers=2 servers=1 batch=100 shard=1000 sync=bsp solution=antdt-nd goes-on=1 at=1040'
		echo 'phase name=running at=1040'
		awk 'match($0, / at=[0-9.]+/) { at = substr($0, RSTART + 4, RLENGTH - 4) } at > 1040' whole/job.log
	} >state/job.log
	run -0 report --text
	[ "${lines[0]}" = "uneven: done in 1 min 12 s, 35.0k samples" ]
	grep -q '^  w0  *6.90k  *100  *1.0 s  *100  *100%  *0%  *0$' <<<"$output"
	grep -q '^  w1  *21.9k .*  *400  *79%  *20%  *1$' <<<"$output"
	grep -q '^         11 s   [0-9]*%   waiting for slower workers, mostly for w0$' <<<"$output"
}

@test "a job that failed: why" {
	mkdir state
	printf '%s\n' 'begin job=bad workers=2 servers=1 batch=64 sync=bsp solution=none at=1000' \
		'phase name=running at=1001' $'error at=1005\tjob fails: w1: status 65 (bad data)' \
		'phase name=stopping at=1005' 'summary job=bad state=failed failed=w1 status=65 at=1006' >state/job.log
	run -0 report --text
	[ "${lines[0]}" = "bad: failed after 6.0 s, by w1, 0 samples" ]
	[ "${lines[1]}" = "  job fails: w1: status 65 (bad data)" ]
	grep -q '^ *Verdict   the job failed, by w1$' <<<"$output"
	grep -q '^ *Why   job fails: w1: status 65 (bad data)$' <<<"$output"
	grep -q '^ *Next   trainctl logs w1 -j bad$' <<<"$output"
}

@test "a job while it runs, and when it is done" {
	job EPOCHS=20 SOLUTION=none
	slow 500
	begin first
	wait_for 'came_to 400'
	wait_for 'trainctl report --run-dir run --text | grep -q "^  w1  *[1-9]"'
	trainctl report --run-dir run --text | head -n 1 | grep -q '^tiny: not ended after '
	rm drag/*
	wait $SUPERVISOR
	trainctl report --run-dir run --text >out
	grep -q '^tiny: done in .*, 40.0k samples$' out
	grep -q 'without stragglers (' out
	grep -q '^  w0 ' out
	grep -q '^  w1 ' out
}

# ---- pictures ----

@test "without gnuplot: what is missing, and the words all the same" {
	made
	local trainctl
	trainctl=$(command -v trainctl)
	[ ! -e "${trainctl%/*}/gnuplot" ]
	PATH=$T run -69 "$trainctl" report --state-dir state --html x.html
	[[ $output == *"gnuplot: not found, and the pictures need it (Debian: gnuplot-nox)"* ]]
	PATH=$T run -69 "$trainctl" report --state-dir state --png pictures
	PATH=$T run -0 "$trainctl" report --state-dir state --text
	[ ! -e x.html ]
}

@test "--html: one file with all pictures, that needs nothing else" {
	need_gnuplot
	made
	run -0 report --html x.html
	[ "$output" = "" ]
	[ "$(grep -c '<svg ' x.html)" -eq 14 ] # each twice: for a screen, for a telephone
	[ "$(grep -c '</svg>' x.html)" -eq 14 ]
	grep -q '<h1>uneven: done in 1 min 52 s, 35.0k samples</h1>' x.html
	grep -q '<td>waiting for slower workers, mostly for w0</td>' x.html
	grep -q ' to 80 (w1): from 200 to 500 samples/s (x2.50); saved 1 min 15 s<br>' x.html
	local title
	for title in Loss 'Speed of the job' 'Batch size of each worker' 'What the nodes did'; do
		grep -q "<title>$title</title>" x.html
	done
	# the legend stands beside the bars, not on them
	[ "$(sed -n '/<figure class="gantt">/,/class="phone/p' x.html | awk '/translate\(/ { sub(/.*translate\(/, ""); x = $0 + 0 }
		/>(computing|communicating|waiting|starting|down|applying|up, else|action|failure)</ { print x }' | sort -u | wc -l)" = 1 ]
	grep -q 'class="key lost"' x.html
	grep -q 'prefers-color-scheme:dark' x.html
	# nothing is fetched
	not grep -E "(src|href)=[\"']?[^#\"']" x.html
	not grep -q '<script' x.html
	report --html - | tail -n 1 | grep -q '^</html>$'
	run -73 report --html "$T/no/such/x.html"
}

@test "--html: ids and reasons from a log stay text" {
	need_gnuplot
	# <b>'"`touch${IFS}pwned` and a reason with a script, quotes, a newline, a bad byte
	made "%27%0Asystem(%22touch%20pwned%22)%0A%3C/svg%3E%3Cscript%3Ealert(1)%3C/script%3E%60touch%20pwned%60%FF" \
		'%3Cb%3E%27%22%60touch%20pwned%60'
	run -0 report --html x.html --png x.png
	[ "$output" = "" ]
	[ ! -e pwned ]
	not grep -q '<b>' x.html
	not grep -q '<script' x.html
	[ "$(grep -c '</svg>' x.html)" -eq 14 ]
	grep -q '&lt;/svg&gt;&lt;script&gt;alert(1)' x.html
	iconv -f UTF-8 -t UTF-8 x.html >/dev/null
}

@test "--html: how its nodes changed stands there, too" {
	need_gnuplot
	turned
	grep '^resize id=w0 ' state/job.log | sed 's/at=1033/at=1105/' >turn
	made
	sed -i '/^phase name=stopping/{
		r turn
		N
	}' state/job.log
	run -0 report --html x.html
	grep -q '<h2>How its nodes changed</h2>' x.html
	grep -q '<td>w0 may use 1.5 cores<br><span class="quiet">as asked &lt;b&gt;</span></td>' x.html
}

@test "--png: a file, or a file each" {
	need_gnuplot
	made
	run -0 report --png all.png
	[ "$(head -c 4 all.png | od -An -tx1 | tr -d ' ')" = 89504e47 ]
	run -0 report --png pictures
	[ "$(ls pictures)" = "batch-size.png
batch-time.png
gantt.png
heat.png
loss.png
shards.png
speed.png" ]
	run -0 report --png pictures # over the old ones
	run -73 report --png /dev/full/x
}

@test "pictures of what there is: none yet, an older log, hundreds of workers" {
	need_gnuplot
	mkdir state
	printf 'begin job=new at=1000\n' >state/job.log
	run -1 report --html x.html
	[[ $output == *"state/job.log: has nothing to draw yet" ]]
	[ ! -e x.html ]
	printf '%s\n' 'phase name=running at=1000' 'row loss=0.5 samples-done=9 samples=90 at=1010' \
		'row loss=0.5 samples-done=18 samples=90 at=1020' >>state/job.log
	run -0 report --html x.html
	[ "$output" = "" ]
	[ "$(grep -c '<svg ' x.html)" -eq 2 ]
	awk 'BEGIN {
		for (t = 1; t <= 50; t++)
			for (w = 0; w < 300; w++)
				printf "series role=worker id=w%d state=up size=10 samples=%d batches=%d time-sum=%g compute-sum=%g comm-sum=0 wait-sum=0 last=%d at=%d\n",
					w, 10 * t, t, t * (1 - w / 1000), t * (1 - w / 1000), 1020 + 10 * t, 1020 + 10 * t
	}' >>state/job.log
	run -0 report --html x.html
	[ "$output" = "" ]
	[ "$(grep -c '<svg ' x.html)" -eq 14 ]
	grep -q 'those that stand out, 40 of 300' x.html
	[ "$(stat -c %s x.html)" -lt 2000000 ]
}

@test "report: learning rates that a scaled job sets are told in a few words" {
	made
	sed -i 's/^decided actions=2 at=1060/action kind=adjust-lr id=w0 scale=4 reason=scaled\naction kind=adjust-lr id=w1 scale=4 reason=scaled\n&/' state/job.log
	run -0 report --text
	[[ $(tr -s ' \n' ' ' <<<"$output") == *"to 80 (w1), learning rates times 4: from "* ]]
	sed -i 's/id=w1 scale=4/id=w1 scale=2/' state/job.log
	run -0 report --text
	[[ $(tr -s ' \n' ' ' <<<"$output") == *"learning rates set, from 2 (w1) to 4 (w0) times: from "* ]]
	sed -i '/id=w1 scale=2/d' state/job.log
	run -0 report --text
	[[ $(tr -s ' \n' ' ' <<<"$output") == *"learning rate of w0 times 4: from "* ]]
}

@test "a log as a trace for Chrome: rows, states, decisions, where batches spend their time" {
	made
	printf '%s\n' 'checkpoint stall=0.5 at=1111' 'checkpoint stall=long at=never' >>state/job.log
	printf 'phase name=las\0\0' >>state/job.log # as a host that lost its power leaves it
	"$PACELINE_ROOT/scripts/examples/chrome-trace" <state/job.log >trace.json 2>err
	python3 - trace.json <<-'E'
		import json, sys
		events = json.load(open(sys.argv[1]))
		rows = {e["args"]["name"]: e["tid"] for e in events if e["ph"] == "M"}
		spans = [(e["tid"], e["name"], e["ts"], e["dur"]) for e in events if e["ph"] == "X"]
		assert (rows["job"], "running", 10e6, 100e6) in spans, spans
		assert (rows["w1"], "up", 10e6, 90e6) in spans, spans
		assert (rows["w1"], "down", 100e6, 0) in spans, spans
		assert [(e["name"], e["ts"]) for e in events if e["ph"] == "i"] == [("adjust-bs", 60e6)] * 2 + [("checkpoint", 111e6)] * 2
		counter = [e["args"] for e in events if e["ph"] == "C" and e["name"] == "w1 ms a batch"]
		assert counter[1] == {"computing": 187.5, "communicating": 62.5, "waiting": 750}, counter[1]
	E
	: >empty
	"$PACELINE_ROOT/scripts/examples/chrome-trace" <empty | python3 -m json.tool >/dev/null
}

# ---- two jobs ----

@test "compare: times, causes, scores and keys of two jobs, in words and as records" {
	made
	printf '%s\n' JOB=uneven BATCH=samples:100 'SOLUTION=filter:antdt-nd' EPOCHS=1 >state/job.env
	mkdir -p other/state
	sed -e 's/=antdt-nd/=none/; s/job=uneven/job=plain/; /^action\|^decision/d; s/auc=0.75 /auc=0.5 /' state/job.log >other/state/job.log
	printf '%s\n' JOB=plain BATCH=samples:100 'SOLUTION=filter:none' $'LABEL="a\ebc"' >other/state/job.env
	run -0 trainctl compare ./state other/ --text
	[[ ${lines[0]} == *uneven*plain*times* ]]
	grep -Eq '^job time +1 min 52 s +1 min 52 s +1.00$' <<<"$output"
	grep -Eq '^actions +2 +0 +0.00$' <<<"$output"
	grep -Eq '^AUC +0.7500 +0.5000$' <<<"$output"
	grep -A 1 '^  SOLUTION *filter:antdt-nd$' <<<"$output" | grep -q '^ *filter:none$'
	grep -A 1 '^  EPOCHS *1$' <<<"$output" | grep -q '^ *(default)$'
	grep -q '^  LABEL *(default)$' <<<"$output"
	not grep -qE $'BATCH|JOB|\e' <<<"$output"
	trainctl compare other/state ./state >records
	grep -q '^compare name=auc a=0.5 b=0.75$' records
	grep -q '^differs key=SOLUTION a=filter:none b=filter:antdt-nd$' records
	# A job that has died, without its file; what is no job, or not two.
	rm other/state/job.env
	printf 'begin job=new at=1000\nphase name=run' >other/state/job.log
	run -0 trainctl compare ./state other/ --text
	[[ $output == *"ends in the middle of a line"* ]]
	grep -Eq '^samples/s while workers train +[0-9]+ +-$' <<<"$output"
	grep -q '^  not known: ' <<<"$output"
	not grep -q BATCH <<<"$output"
	run -66 trainctl compare ./state nope
	# A log that nobody writes is not waited for.
	mkdir pipe
	mkfifo pipe/job.log
	run -1 timeout 20 trainctl compare ./state ./pipe
	run -1 timeout 20 trainctl report --state-dir pipe
	run -64 trainctl compare ./state
	[[ $output == *"two jobs are compared, not 1"* ]]
}
