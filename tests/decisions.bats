# trainctl: solutions decide, built-in and executable; all workers apply it; sizes at every barrier.
load helper

# ---- decisions ----

@test "a solution is told what is left, how fast, and what is in force" {
	solution <<-'S'
		#!/bin/sh
		cat >solution.tmp && mv solution.tmp solution.in
		echo 'action kind=backup-workers count=1'
	S
	job SOLUTION=./solution,every:0.3,pending:7,lambda:1.5,cmax:4,least:3 MODEL=audit WORKERS=3 SYNC=bsp KILL_RESTART=2 EPOCHS=10
	slow 100
	begin first
	wait_for 'grep -qs "^info name=backup-workers value=1 age=0" solution.in'
	left=$(sed -n 's/^info name=samples-left value=\([0-9]*\) age=0/\1/p' solution.in)
	[ "$left" -gt 0 ]
	[ "$left" -le 20000 ]
	grep -q '^info name=sync value=bsp age=0' solution.in
	grep -q '^node role=worker id=w0 .* silent=[0-9.]*$' solution.in
	for name in rate restart-worker restart-server; do # the rate is known a little later
		wait_for "awk -v name=$name '\$2 == \"name=\" name { sub(/value=/, \"\", \$3); found = \$3 > 0 } END { exit !found }' solution.in"
	done
	grep -q '^decision solution=.*/solution batch=64 lambda=1.5 pending=7 sync=bsp limit=2 cmax=4 least=3 at=' run/state/job.log
	rm drag/*
	wait $SUPERVISOR
	exact "$(summary first.out | field checkpoint)" 2000 10
}

@test "the first decision comes as soon as every worker has reported" {
	job SOLUTION=even,every:3600 EPOCHS=20
	slow 400
	begin first
	wait_for '[ "$(logged "^decided ")" -eq 1 ]'
	rm drag/*
	wait $SUPERVISOR
	[ "$(logged '^decided ')" -eq 1 ]
	for w in w0 w1; do
		sed -n '/^decision /,/^decided /p' run/state/job.log |
			grep -q "^node role=worker id=$w .* size=32 "
	done
}

@test "a solution that hangs, dies, or talks nonsense is skipped, and asked again" {
	solution <<-'S'
		#!/bin/sh
		# taken as a whole, so that what is wanted next is not written over
		if mv how taken 2>taken.err; then how=$(cat taken); else how=good; fi
		case $how in
		hang) exec sleep 100 ;;
		die) echo 'action kind=adjust-bs id=w0 size=1'; kill -9 $$ ;;
		binary) head -c 3000 /dev/zero ;;
		endless) exec yes 'action kind=none' ;;
		half) printf 'action kind=none\naction kind=adjust-bs id=w0 siz' ;;
		stranger) printf 'action kind=adjust-bs id=w0 size=60\naction kind=adjust-bs id=w9 size=4\n' ;;
		zero) printf 'action kind=adjust-bs id=w0 size=64\naction kind=adjust-bs id=w1 size=0\n' ;;
		huge) echo 'action kind=adjust-bs id=w0 size=20000000' ;;
		word) printf 'action kind=adjust-bs id=w0 size=1\nacton kind=none\n' ;;
		all) echo 'action kind=backup-workers count=2' ;;
		server) echo 'action kind=adjust-bs id=ps0 size=64' ;;
		noisy) exec yes many words >&2 ;;
		*) echo "I am well" >&2
			printf 'action kind=adjust-bs id=w0 size=50 reason=mine\naction kind=adjust-bs id=w1 size=14\n' ;;
		esac
	S
	job SOLUTION=./solution,every:0.2 MODEL=audit EPOCHS=10
	slow 60
	begin first
	while read -r how why; do
		echo "$how" >wanted
		mv wanted how
		wait_for "grep -qs \"solution .*$why.*; skipped\" run/state/job.log"
		# and the next round is heard
		local before
		before=$(logged '^acted ')
		wait_for '[ "$(logged "^acted ")" -gt '"$before"' ]'
	done <<-'H'
		die signal 9
		binary line 1
		endless more than 1048576 bytes
		half line 2: ends in the middle
		stranger line 2: adjust-bs w9: unknown-node
		zero line 2: adjust-bs w1: size
		huge line 1: adjust-bs w0: size
		word line 2: 'acton'
		all line 1: backup-workers: count
		server line 1: adjust-bs ps0: unknown-node
		noisy more than 1048576 bytes of output
		hang no answer in 10 s
	H
	# what it says is said by whose it is, and has an end
	grep -q '^trainctl: solution solution: I am well$' first.err
	grep -q '^trainctl: solution solution: its further lines on standard error are left out$' first.err
	local noisy
	noisy=$(grep -c 'solution solution: many words$' first.err)
	[ "$noisy" -gt 2000 ]
	[ "$noisy" -lt 3000 ]
	grep -q '^refused kind=adjust-bs id=w9 reason=unknown-node line=2 at=' run/state/job.log
	# nothing of a skipped decision was done
	not grep -q '^action kind=adjust-bs id=w0 size=\(1\|60\|64\) ' run/state/job.log
	applied w0 >applied.w0
	not grep -q 'size=\(1\|60\|64\) ' applied.w0
	rm drag/*
	wait $SUPERVISOR
	exact "$(summary first.out | field checkpoint)" 2000 10
	[ "$(report | grep ^report | field skipped)" -ge 11 ]
	report | grep -q '^decided .* id=w0 size=50 accum=1 reason=mine'
}

@test "a solution that fails each round: said when it begins, for another reason, and when it is over" {
	solution <<-'S'
		#!/bin/sh
		cat >/dev/null
		exit "$(cat status)"
	S
	job SOLUTION=./solution,every:0.1 MODEL=audit EPOCHS=10
	slow 60
	echo 3 >status
	begin first
	wait_for '[ "$(logged "^decided actions=0 skipped=1 ")" -ge 3 ]'
	[ "$(grep -c 'exit status 3; skipped' first.err)" -eq 1 ]
	echo 4 >new && mv new status
	wait_for 'grep -q "exit status 4; skipped" first.err'
	local before
	before=$(logged "^decided actions=0 skipped=1 ")
	wait_for '[ "$(logged "^decided actions=0 skipped=1 ")" -ge '$((before + 2))' ]'
	[ "$(grep -c '; skipped' first.err)" -eq 2 ]
	echo 0 >new && mv new status
	wait_for 'grep -q "works again" first.err'
	local failed
	failed=$(logged "^decided actions=0 skipped=1 ")
	grep -q "solution .*/solution works again: $failed rounds failed" first.err
	wait_for '[ "$(logged "^decided actions=0 at=")" -ge 3 ]'
	echo 4 >new && mv new status # begins anew
	wait_for '[ "$(grep -c "exit status 4; skipped" first.err)" -eq 2 ]'
	rm drag/*
	wait $SUPERVISOR
	[ "$(grep -c 'works again' first.err)" -eq 1 ]
	[ "$(report | grep ^report | field skipped)" -eq "$(logged ' skipped=1 ')" ]
}

@test "what a solution leaves behind does not outlive the job" {
	solution <<-'S'
		#!/bin/sh
		sleep 1000 &
		echo $! >left.new && mv left.new left
	S
	job SOLUTION=./solution,every:0.2 MODEL=audit EPOCHS=5
	slow 80
	begin first
	wait_for '[ -s left ]'
	PIDS+=("$(cat left)")
	rm drag/*
	wait $SUPERVISOR
	wait_for 'gone "$(cat left)"'
}

@test "all workers apply an action in the same iteration" {
	job MODEL=audit WORKERS=3 EPOCHS=12
	slow 500
	begin first
	wait_for 'came_to 300'
	for sizes in "30 20 14" "10 50 4" "22 21 21"; do
		read -r a b c <<<"$sizes"
		printf 'action kind=adjust-bs id=w0 size=%d reason=test\naction kind=adjust-bs id=w1 size=%d\naction kind=adjust-bs id=w2 size=%d accum=1\n' \
			"$a" "$b" "$c" | trainctl apply --run-dir "$T/run" >answer
		grep -q '^ok actions=3 refused=0 iteration=[0-9]*$' answer
		cat answer >>answers
		wait_for "applied w2 | grep -q 'size=$c '"
	done
	echo 'action kind=adjust-lr id=w1 scale=0.5' | trainctl apply --run-dir "$T/run" >answer
	cat answer >>answers
	wait_for "applied w1 | grep -q 'kind=adjust-lr .* scale=0.5 '"
	for w in w0 w1 w2; do applied $w | grep kind=adjust-bs | field iteration >$w.iterations; done
	cmp w0.iterations w1.iterations
	cmp w0.iterations w2.iterations
	[ "$(wc -l <w0.iterations)" -eq 3 ]
	# and in the one that the answer named
	[ "$(head -n 3 answers | sed 's/.* iteration=//')" = "$(cat w0.iterations)" ]
	# a sum that is not BATCH is obeyed, and said
	echo 'action kind=adjust-bs id=w0 size=40' | trainctl apply --run-dir "$T/run"
	grep -q '^warning kind=adjust-bs sum=82 batch=64 at=' run/state/job.log
	wait_for "applied w0 | grep -q 'size=40 '"
	run trainctl apply --run-dir "$T/run" <<<'action kind=adjust-bs id=w0'
	[ "$status" -eq 1 ]
	[[ $output == *"bad-actions: line 1: "* ]]
	run trainctl apply --run-dir "$T/run" < <(printf 'action kind=none')
	[ "$status" -eq 1 ]
	[[ $output == *"line 1: ends in the middle"* ]]
	rm drag/*
	wait $SUPERVISOR
	exact "$(summary first.out | field checkpoint)" 2000 12
}

@test "actions in force are told to a lead of a new incarnation, and to none that took over" {
	job MODEL=audit EPOCHS=20 CHECKPOINT=0.3
	slow 400
	begin first
	wait_for 'came_to 200'
	printf 'action kind=adjust-bs id=w0 size=50\naction kind=adjust-bs id=w1 size=14\n' |
		trainctl apply --run-dir "$T/run"
	wait_for "grep -q 'id=w1 size=14' run/state/kept"
	wait_for 'applied w1 | grep -q "size=14 "' # the process that is killed below
	run trainctl kill-restart ps0 --run-dir "$T/run"
	[ "$status" -eq 0 ]
	strike w1 # the new process has it from the lead that took over
	wait_for '[ "$(applied w1 | grep -c "size=14 ")" -ge 2 ]'
	not grep -q '^acted by=in-force' run/state/job.log
	# known to the supervisor that comes after, too
	kill -9 $SUPERVISOR
	wait $SUPERVISOR || true
	begin second
	wait_for running
	strike ps1
	wait_for 'grep -q "^acted by=in-force actions=2 " run/state/job.log'
	strike w0
	wait_for '[ "$(applied w0 | grep -c "size=50 ")" -ge 2 ]'
	[ "$(logged '^acted by=in-force')" -eq 1 ]
	rm drag/*
	wait $SUPERVISOR
	exact "$(summary second.out | field checkpoint)" 2000 20
}

# ---- sizes at every barrier ----

# sizes ITERATION: as the lead told them, without names.
sizes() {
	plrec where iteration="$1" <run/state/balance.log | plrec tsv sizes | sed 's/w[0-9]*://g'
}

@test "SOLUTION=lb-bsp: sizes follow speeds within two iterations, and sum to BATCH in each" {
	data 1500
	job SOLUTION=lb-bsp,predict:last WORKERS=3 BATCH=120 SERVERS=1
	slow 250
	echo 'drag speed=62.5' >drag/w2
	run run_job
	[ "$status" -eq 0 ]
	[ "$(sizes 0)" = 40,40,40 ]
	[ "$(plrec where type=balance <run/state/balance.log | plrec tsv sizes | sed 's/w[0-9]*://g' |
		awk -F, '{ print $1 + $2 + $3 }' | sort -u)" = 120 ]
	plrec where type=balance <run/state/balance.log | sed -n 3p | plrec tsv sizes |
		awk -F'[:,]' '{ exit !($6 >= 10 && $6 <= 20) }' # 53,53,14
	[ "$(logged '^decision')" = 0 ] # the periodic loop is off
	[ -s run/state/predict-w0 ]
	decided_again run/state/balance.log
}

@test "balance.log: one that grew large begins again" {
	job SOLUTION=lb-bsp SYNC=bsp EPOCHS=1000
	begin first
	wait_for 'grep -qs "^balance " run/state/balance.log'
	truncate -s 70M run/state/balance.log # the next record goes behind that
	wait_for '[ -s run/state/balance.log.1 ] && grep -q "^balance " run/state/balance.log'
	[ "$(stat -c %s run/state/balance.log.1)" -ge 70000000 ]
	cat run/state/balance.log.1 run/state/balance.log | tr -d '\0' >both
	decided_again both
}

@test "SOLUTION=lb-bsp: a worker that dies has no share; it comes back and has one again" {
	data 4000
	# Who is started while there is hold waits for its end.
	job SOLUTION=lb-bsp,predict:ema WORKERS=3 BATCH=120 SERVERS=1 MODEL=audit EPOCHS=5 \
		"LAUNCH_WORKER='sh -c \"while [ -e $T/hold ]; do sleep 0.1; done; exec \\\"\\\$@\\\"\" x'"
	slow 100
	echo 'drag speed=40' >drag/w2
	begin job
	wait_for '[ -e run/state/balance.log ] && [ "$(wc -l <run/state/balance.log)" -ge 2 ]'
	touch hold
	strike w1
	wait_for 'tail -n 1 run/state/balance.log >last && not grep -q w1: last'
	plrec tsv sizes <last >gone
	rm hold
	wait_for 'tail -n 1 run/state/balance.log | grep -q w1:'
	rm drag/*
	wait "$SUPERVISOR"
	sed 's/w[0-9]*://g' gone | awk -F, '{ exit $1 + $2 != 120 }'
	decided_again run/state/balance.log
	exact "$(summary job.out | field checkpoint)" 4000 5
}

# Speeds that a worker's model has seen in this life, and those it has learnt from in all.
lives() {
	plrec where name=seen <"run/state/predict-$1" | plrec tsv v
	plrec where name=learnt <"run/state/predict-$1" | plrec tsv v
}

@test "PREDICT_FROM: a new job's workers start from what another's have learnt, or any of them" {
	data 2000
	job SOLUTION=lb-bsp,predict:arx WORKERS=2 BATCH=40 SERVERS=1
	run_job >/dev/null
	set -- $(lives w0)
	[ "$1" -gt 20 ]
	[ "$2" -eq $(($1 - 2)) ]
	mkdir from
	cp run/state/predict-w1 from
	echo "PREDICT_FROM=$T/from" >>job.env
	run_job --fresh >/dev/null
	[ "$(grep -c ^balancing run/state/balance.log)" = 1 ]
	for w in w0 w1; do # of which the first has no namesake there
		set -- $(lives $w)
		[ "$2" -gt $(($1 + 10)) ]
	done
	run_job --fresh --set PREDICT_FROM="$T/from/predict-w1" >/dev/null
	set -- $(lives w0)
	[ "$2" -gt $(($1 + 10)) ]
	run_job --fresh --set PREDICT_FROM= >/dev/null # --fresh forgets its own
	set -- $(lives w0)
	[ "$2" -eq $(($1 - 2)) ]
	run -66 run_job --fresh --set PREDICT_FROM=nowhere
	[[ $output == *nowhere*PREDICT_FROM* ]]
	mv from/predict-w1 from/predict-w1.new
	run -66 run_job --fresh --set PREDICT_FROM="$T/from"
	[[ $output == *"$T/from: PREDICT_FROM: the directory has no predict-ID"* ]]
	mv from/predict-w1.new from/predict-w17 # no worker here has that name
	touch from/predict-w2000 from/predict-w3.new
	run_job --fresh --set PREDICT_FROM="$T/from" >/dev/null
	set -- $(lives w0)
	[ "$2" -gt $(($1 + 10)) ]
	run -78 run_job --fresh --set PREDICT_FROM=run/state
	[[ $output == *--fresh* ]]
	run -78 run_job --fresh --set PREDICT_FROM=run/./state/predict-w1
	[ -e run/state/predict-w0 ]
	cp -r run/state run/state-before # is not run/state
	run_job --fresh --set PREDICT_FROM=run/state-before >/dev/null
}

@test "PREDICT_FROM: a file that workers can't start from is told, and nothing starts" {
	data 2000
	job SOLUTION=lb-bsp,predict:arx WORKERS=2 BATCH=40 SERVERS=1
	run_job >/dev/null
	mkdir from
	cp run/state/predict-w[01] from
	cp -r run/state before
	printf 'obs id=w0 k=%d speed=%d\n' 0 100 1 200 2 200 | speed-predict -m arx --save several.model >/dev/null
	sed '$d' from/predict-w1 >cut.model
	mkfifo pipe.model
	for wrong in several.model:'no model of one worker' cut.model:'ends here' pipe.model:'no regular file' \
		from:'model of kind arx, not ema'; do
		set -- --set PREDICT_FROM="$T/${wrong%%:*}"
		[[ $wrong != from:* ]] || set -- "$@" --set SOLUTION=lb-bsp,predict:ema
		run -65 run_job --fresh "$@"
		[[ $output == *"PREDICT_FROM: $T/${wrong%%:*}"*"${wrong#*:}"* ]]
		diff -r -x lock before run/state
	done
	mv cut.model from/predict-w1 # only the second worker would start from it
	run -65 run_job --fresh --set PREDICT_FROM="$T/from"
	[[ $output == *"PREDICT_FROM: $T/from/predict-w1:"*"ends here"* ]]
	# Workers that go on with what they have learnt themselves don't read it.
	run_job --set PREDICT_FROM="$T/several.model" >/dev/null
}

@test "SOLUTION=lb-bsp: sizes by hand are refused; ssp and asp have no barrier" {
	data 4000
	job SOLUTION=lb-bsp WORKERS=2 SERVERS=1 EPOCHS=400
	slow 400
	for sync in ssp:2 asp; do
		for solution in lb-bsp lb-bsp-gpu; do
			run run_job --set SYNC=$sync --set SOLUTION=$solution
			[ "$status" -eq 78 ]
			[[ $output == *"$solution"*"$sync"* ]]
		done
	done
	run run_job --set SOLUTION=predict:magic
	[ "$status" -eq 78 ]
	begin job
	wait_for 'came_to 200'
	run trainctl apply --run-dir "$T/run" <<<'action kind=adjust-bs id=w0 size=3'
	[ "$status" -ne 0 ]
	[[ $output == *balanced* ]]
	run trainctl apply --run-dir "$T/run" <<<'action kind=adjust-lr id=w0 scale=0.5'
	[ "$status" -eq 0 ]
	kill "$SUPERVISOR"
	wait "$SUPERVISOR" || true
}

@test "SOLUTION=lb-bsp-gpu: the faster worker's batch grows" {
	data 6000
	job SOLUTION=lb-bsp-gpu WORKERS=2 SERVERS=1 BATCH=64
	slow 4000
	echo 'drag speed=500' >drag/w1
	run run_job
	[ "$status" -eq 0 ]
	tail -n 1 run/state/balance.log | plrec tsv sizes |
		awk -F'[:,]' '{ exit !($2 + $4 == 64 && $2 > $4 + 10) }'
	decided_again run/state/balance.log
}

@test "SOLUTION=lb-bsp-gpu: workers without which the job is faster are said, once" {
	data 3000
	job SOLUTION=lb-bsp-gpu WORKERS=3 SERVERS=1 BATCH=48
	slow 4000
	for w in w1 w2; do echo 'drag speed=4000 delay=0.05' >drag/$w; done
	run run_job
	[ "$status" -eq 0 ]
	# They are as slow: the lead warns of one, then of the other, and so on.
	for w in w1 w2; do
		[ "$(grep -c "^trainctl: $w: the job is faster without it$" <<<"$output")" -eq 1 ]
		[ "$(grep -c "^warning .*$w: the job is faster without it$" run/state/job.log)" -eq 1 ]
	done
}
