load helper
# What people see of a job on a terminal: of 40, 80, 200 columns, resized, ended, dumb. script(1)
# makes the terminal; which words stand in which width is the unit tests' (screen_view).

setup_more() {
	unset NO_COLOR COLUMNS LINES
	export TERM=xterm
}

# in_terminal COLUMNS COMMAND: in a terminal of so many columns and 24 lines; all that it gets is in
# ./screen, its exit status in ./status. Keys are what stands in the fifo ./keys, if there is one.
in_terminal() {
	local keys=/dev/null
	[ ! -p keys ] || keys=keys
	cat >inside <<-S
		trap : INT # what Ctrl-C ends is not this shell
		stty cols $1 rows 24
		tty >tty
		stty -g >before
		sh -c 'echo \$\$ >pid; exec $2'
		echo \$? >status
		stty -g >after
	S
	rm -f status screen tty pid
	script -qefc "exec sh $T/inside" /dev/null <"$keys" >screen 3>&-
}

# lines: of ./screen as they were written, without what moves the cursor or colours.
lines() { sed 's/\x1b[[(][0-9;?]*[A-Za-z]//g; s/\x1b[>=]//g; s/\r/\n/g' screen; }

# fits COLUMNS: no line of ./screen is longer. A path has to be whole.
fits() {
	lines | grep -v '^checkpoint ' | awk -v most="$1" 'length > most { print; bad = 1 } END { exit bad }'
}

# The terminal is as it was: its settings, its cursor, its first screen.
given_back() {
	cmp before after
	[ "$(grep -o $'\e\[?1049h' screen | wc -l)" = "$(grep -o $'\e\[?1049l' screen | wc -l)" ]
	[[ $(grep -o $'\e\[?25[lh]' screen | tail -n 1) == *h ]]
}

# begin_top COLUMNS [OPTION]...: top in a terminal, in the background; press sends keys.
begin_top() {
	local columns=$1
	shift
	rm -f keys pid screen
	mkfifo keys
	in_terminal "$columns" "trainctl top -i 0.1 --run-dir $T/run $*" &
	TERMINAL=$!
	PIDS+=("$TERMINAL")
	exec 7>keys
	wait_for 'grep -qs RATIO screen'
}

press() { printf '%b' "$1" >&7; }

@test "run in 40, 80 and 200 columns: time left, loss, speed; nothing is wrapped" {
	job TEST=d.csv
	for columns in 40 80 200; do
		in_terminal $columns "trainctl run $T/job.env --run-dir $T/run --fresh"
		[ "$(cat status)" = 0 ]
		fits $columns
		lines | grep -q '^step 1  .*loss 0.69'
		lines | grep -q '^loss 0\.[0-9]*  [0-9.]*k\? samples/s  epoch 1/1'
		lines | grep -Eq '^([0-9]+ s|time) left.* [#.]+ +[0-9]+%$'
		lines | grep -q '^tiny: done in .* samples'
		lines | grep -q '^TEST: AUC 0\.[0-9]*, log loss'
		lines | grep -q "^checkpoint $T/run/state/checkpoints/"
		lines | grep -q '^ *Verdict   [a-z]'
		lines | grep -q '^ *Next   [a-zA-Z]'
		cmp before after
	done
	# done is done
	in_terminal 80 "trainctl run $T/job.env --run-dir $T/run"
	lines | grep -q '^tiny: done in'
	lines | grep -q '^ *Verdict   [a-z]'
}

@test "run: the last row is of the end, and how long it took is what the rows and the report say" {
	job EPOCHS=3
	in_terminal 80 "trainctl run $T/job.env --run-dir $T/run"
	lines | grep -Eq '^step (9[3-9]|1[0-4][0-9])  .*loss 0' # 64 was the last power of two; a slow start leaves one worker more
	run_job --fresh >out
	[ "$(tail -n 2 out | head -n 1 | field samples-done)" = 6000 ]
	awk -v row="$(tail -n 2 out | head -n 1 | field time)" -v all="$(summary out | field time)" \
		-v jct="$(summary out | field jct)" 'BEGIN { exit !(jct < all && row <= all) }'
}

@test "run on a terminal that can't move its cursor: a line a row, and not one escape" {
	job
	for term in dumb no-such-terminal ''; do
		export TERM=$term
		in_terminal 80 "trainctl run $T/job.env --run-dir $T/run --fresh"
		[ "$(cat status)" = 0 ]
		not grep -q $'\e' screen
		fits 80
		lines | grep -q '^step 2  .*loss 0.6.* samples/s'
		lines | grep -q '^tiny: done in'
	done
}

@test "colours: sparingly, and none with NO_COLOR" {
	job
	begin first
	wait $SUPERVISOR || true
	job EPOCHS=500
	slow 500
	echo "drag speed=100" >drag/w1
	begin second --fresh
	wait_for 'in_status " id=w1 .* ratio=1\.[3-9]"'
	in_terminal 80 "trainctl status --run-dir $T/run"
	grep -q $'\e\[33m *1\.[0-9]*' screen
	export NO_COLOR=1
	in_terminal 80 "trainctl status --run-dir $T/run"
	not grep -q $'\e\[3[0-9]m' screen
	lines | grep -q '^w1  .* 1\.[0-9]* .*computes'
}

@test "status in 40, 80 and 200 columns is what top shows; on a pipe records" {
	job EPOCHS=500
	slow 500
	begin first
	wait_for 'came_to 300'
	in_terminal 80 "trainctl status --run-dir $T/run"
	for word in reported decided failed brain measured; do
		lines | grep -q "^$word: nothing yet$"
	done
	printf 'action kind=adjust-bs id=%s size=%s reason=tried%%20out\n' w0 24 w1 40 |
		trainctl apply --run-dir "$T/run"
	wait_for 'in_status " id=w1 .* size=40 .* ratio=[01].* told=size"'
	for columns in 40 80 200; do
		in_terminal $columns "trainctl status --run-dir $T/run"
		[ "$(cat status)" = 0 ]
		fits $columns
		lines | grep -q '^tiny  running  for '
		lines | grep -Eq '^(time|[0-9]).*left .*%$'
		lines | grep -q '^decided .* ago: w1 size 40: tried out$'
		lines | grep -q '^NODE  *STATE  *\(HOST  *\)*RATIO  *TIME'
		lines | grep -q '^w1  *up  *\([^ ]*  *\)*[01]\.[0-9][0-9] '
		trainctl top --run-dir "$T/run" >once
		grep -q '^w1  *up  *[^ ]*  *[01]\.[0-9][0-9] .*  size 40, .* ago' once
	done
	lines | grep -q '  LAST ACTION  *PID$' # at 200
	[[ $(status | head -n 1) == "job name=tiny state=running "* ]]
}

@test "top: keys, another size, the end of the job" {
	job EPOCHS=10
	slow 500
	begin first
	wait_for 'came_to 300'
	begin_top 80
	press h
	wait_for 'grep -q "choose a node" screen'
	press q
	press S
	wait_for 'grep -q "restart" screen'
	for log in run/state/logs/*.log; do
		echo 'the end of it' >>"$log"
	done
	press l
	wait_for 'grep -q "its log, as it grows; Ctrl-C goes back" screen'
	wait_for 'grep -q "the end of it" screen'
	press '\003'
	wait_for '[ "$(grep -o RATIO screen | wc -l)" -ge 2 ]'
	stty -F "$(cat tty)" cols 40 rows 12
	wait_for '[ "$(grep -o RATIO screen | wc -l)" -ge 3 ]'
	press q
	wait $TERMINAL
	[ "$(cat status)" = 0 ]
	given_back
	not grep -q 'done in' screen
	begin_top 200 --sort node
	rm drag/*
	wait $SUPERVISOR
	wait $TERMINAL
	[ "$(cat status)" = 0 ]
	given_back
	lines | grep -q '^tiny: done in'
	exec 7>&-
}

# drawn: what top has written since it cleared the screen for the last time.
drawn() { tr '\n' '\r' <screen | sed 's/.*\x1b\[H\x1b\[2J//'; }

@test "top of a terminal that is resized: all of it is drawn anew, for a telephone, too" {
	job EPOCHS=500
	slow 500
	begin first
	wait_for 'came_to 300'
	begin_top 160
	wait_for 'grep -q PID screen'
	stty -F "$(cat tty)" rows 15 cols 40
	wait_for 'drawn | grep -qa "q quit" && not grep -qa PID <(drawn)'
	for word in tiny NODE RATIO w0 w1 shardd bpt-monitor ps0 ps1; do
		drawn | grep -qa "$word"
	done
	# The foot is in the last line, and nothing is below it.
	drawn | grep -qa $'\e\\[15d.*q quit\|\e\\[15;1H.*q quit'
	not grep -qaE $'\e\\[(1[6-9]|2[0-9])[d;]' <(drawn)
	press h
	wait_for 'drawn | grep -qa "ACCUM  steps"'
	press qq
	wait $TERMINAL
	given_back
	exec 7>&-
}

@test "logs on a terminal: escape sequences are shown, not obeyed; elsewhere they are as they were" {
	job
	run_job >out
	printf 'a\e[31mb\xc2\x9b31mc\x9b0md\303\244\nbar 1%%\rbar 2%%\r\ntab\there\n' >run/state/logs/w0.log
	in_terminal 80 "trainctl logs w0 --run-dir $T/run"
	[ "$(cat status)" = 0 ]
	printf 'a?[31mb??31mc?0md\303\244\r\nbar 1%%\r\nbar 2%%\r\ntab\there\r\n' | cmp - screen
	trainctl logs w0 --run-dir "$T/run" | cmp - run/state/logs/w0.log
}

@test "top that is ended by a signal gives the terminal back; a job that does not answer stops no key" {
	job EPOCHS=500
	slow 500
	begin first
	wait_for 'came_to 300'
	for signal in TERM INT HUP QUIT; do
		begin_top 80
		kill -$signal "$(cat pid)"
		wait $TERMINAL
		[ "$(cat status)" = $((128 + $(kill -l $signal))) ]
		given_back
	done
	begin_top 80
	kill -STOP "$SUPERVISOR"
	wait_for 'grep -q answered screen'
	press h
	wait_for 'grep -q "choose a node" screen'
	press 'qq'
	wait $TERMINAL
	[ "$(cat status)" = 0 ]
	given_back
	begin_top_fails() { trainctl top --run-dir "$T/nothing"; }
	run begin_top_fails
	[ "$status" = 66 ]
	kill -CONT "$SUPERVISOR"
	begin_top 80
	kill -9 "$SUPERVISOR"
	wait $TERMINAL
	given_back
	lines | grep -q '^tiny: its trainctl was killed'
	exec 7>&-
}

@test "run that is interrupted, and one that is killed, leave the terminal as it was" {
	job EPOCHS=10
	slow 500
	rm -f screen
	in_terminal 80 "trainctl run $T/job.env --run-dir $T/run" &
	wait_for 'came_to 300'
	kill -INT "$(cat pid)"
	wait $!
	[ "$(cat status)" = 130 ]
	cmp before after
	lines | grep -q '^tiny: stopped after .*; the same command goes on'
	rm screen
	in_terminal 40 "trainctl run $T/job.env --run-dir $T/run" &
	wait_for 'grep -qs "samples/s" screen'
	stty -F "$(cat tty)" cols 80
	kill -9 "$(cat pid)"
	wait $!
	[ "$(cat status)" = 137 ]
	cmp before after
	rm drag/*
	trainctl run job.env --run-dir "$T/run" | tail -n 1 | grep -q '^summary job=tiny state=done'
}

@test "status of all jobs in 40 and 80 columns; top of a job that does not run" {
	local name=all-$BASHPID # its run directory is that of every job of this name
	job JOB=$name
	trainctl run job.env >out
	mkdir -p "$T/home"
	for columns in 40 80; do
		in_terminal $columns "trainctl status"
		[ "$(cat status)" = 0 ]
		fits $columns
		lines | grep -q '^JOB  *STATE  *DONE'
		lines | grep -q "^$name  *done  *100%"
	done
	in_terminal 80 "trainctl top -j $name"
	[ "$(cat status)" = 1 ]
	lines | grep -q "^$name: done in"
	not grep -q $'\e\[?1049h' screen
	run -66 trainctl top -j nobody
	rm -r "/tmp/paceline-$(id -u)/$name"
}

@test "what the first rank of a trainer prints is shown, on a terminal only" {
	needs_python
	cat >prints.py <<-'END'
		import os, paceline, sys, time
		for batch in paceline.batches(state={}, collective=True):
		    batch.rows
		    if batch.iteration == 3: print("epoch\x1b[31m " * 2 + os.environ["RANK"])
		    sys.stderr.write("\r%d%%" % (10 * batch.iteration))
		    batch.done(1.0)
		    time.sleep(0.01)
		print("\naccuracy 0.93")
	END
	export PYTHONPATH=$PACELINE_ROOT/scripts/python
	printf '%s\n' JOB=prints SAMPLES=300 WORKERS=2 BATCH=10 "TRAINER='exec python3 $T/prints.py'" >job.env
	in_terminal 80 "trainctl run job.env --run-dir $T/run"
	[ "$(cat status)" -eq 0 ]
	[ "$(lines | grep -c '^w0: 20%epoch?\[31m epoch?\[31m 0')" -eq 1 ]
	[ "$(lines | grep -c '^w0: 290%')" -eq 1 ]
	[ "$(lines | grep -c '^w0: accuracy 0.93')" -eq 1 ]
	not grep -q 'spent id=' screen
	run -0 trainctl run job.env --run-dir "$T/run" --fresh
	not grep -q 'w0: accuracy' <<<"$output"
}

@test "what rank 0 prints is shown of the spare that has taken its place, too" {
	command -v python3 >/dev/null || skip "no python3 here"
	printf '%s\n' JOB=ranks SAMPLES=600 WORKERS=2,spares:1 BATCH=30 EPOCHS=1000 SYNC=allreduce RESTARTS=shard:never \
		"TRAINER='cd $T && exec python3 $BATS_TEST_DIRNAME/counting-trainer.py 600 0.03'" >job.env
	in_terminal 80 "trainctl run job.env --run-dir $T/run" &
	local terminal=$!
	wait_for "in_status '^node role=spare id=s0 state=up '"
	wait_for "lines | grep -q '^w0: '"
	kill -9 "$(pid_of w0)"
	wait_for "lines | grep -q '^s0: '"
	touch enough
	wait $terminal
	[ "$(cat status)" -eq 0 ]
}

@test "while rank 0 is dead, what the next rank prints is shown: no line is missing" {
	command -v python3 >/dev/null || skip "no python3 here"
	printf '%s\n' JOB=ranks SAMPLES=600 WORKERS=3 BATCH=30 EPOCHS=1000 SYNC=allreduce \
		"TRAINER='cd $T && while [ -e hold.\$PACELINE_ID ]; do sleep 0.05; done; exec python3 $BATS_TEST_DIRNAME/counting-trainer.py 600 0.03'" >job.env
	in_terminal 80 "trainctl run job.env --run-dir $T/run" &
	local terminal=$!
	wait_for "lines | grep -q '^w0: sum '"
	touch hold.w0
	kill -9 "$(pid_of w0)"
	wait_for "lines | grep -q '^w1: sum '"
	rm hold.w0
	wait_for "lines | sed -n '/^w1: sum/,\$p' | grep -q '^w0: sum '"
	lines | sed -n 's/^w[01]: sum \([0-9]*\) .*/\1/p' | sort -nu >shown
	cmp shown <(seq 1 "$(tail -n 1 shown)")
	kill -9 "$(pid_of w0)" "$(pid_of w1)"
	wait_for "lines | grep -q '^w2: sum '"
	touch enough
	wait $terminal
	[ "$(cat status)" -eq 0 ]
}
