# node-host: a command on another host. `ssh` is one of these here: a stand-in that runs the far end on
# rooms: proc
# this machine, where its end and its silence can be made; then sshd and Slurm on hosts of their own.
load helper
load cluster/hosts

setup_more() {
	mkdir bin
	cat >bin/ssh <<-'SSH'
		#!/usr/bin/env bash
		# In a session of its own, at the end of a connection that can be cut.
		while [ "$1" != -- ]; do shift; done
		if [ "$2" = dead ]; then
			echo "ssh: connect to host dead port 22: No route to host" >&2
			exit 255
		fi
		eval "set -- $3"
		if [ ! -x "$2" ]; then
			echo "sh: 1: $2: not found" >&2
			exit 127
		fi
		echo $$ >"${0%/*}/../ssh.pid"
		export WORDS="$*"
		cd "${HOME_THERE:-.}" || exit
		exec socat STDIO EXEC:"${0%/*}/far",setsid
	SSH
	printf '#!/bin/sh\necho "You have mail."\n%s\n' 'exec env -i PATH="$PATH" sh -c "$WORDS"' >bin/far
	chmod +x bin/*
	PATH=$T/bin:$PATH
}

teardown_more() { hosts_down; }

# A number of seconds that nobody else sleeps for, so that sleepers are ours.
unique() { echo $((100000 + RANDOM * 7 + $$ % 7919)); }
sleeps() { pgrep -f "^sleep $1\$" >/dev/null; }
gone() { not pgrep -f "^sleep $1\$" >/dev/null; }
# two SECONDS: the command is one process that waits for another.
two() { echo "sleep $1 & echo up; sleep $1"; }
# younger SECONDS: of the two at the far end of that one, the one that does the work.
younger() { ps -o ppid= -p "$(pgrep -f "^/bin/sh -c sleep $1 ")"; }

# as_the_command NODE-HOST...: what holds for every way there.
as_the_command() {
	run "$@" /bin/sh -c 'echo "$PACELINE_HOST"; printf "[%s]" "$@"; exit 65' sh 'a  b' "it's" '$HOME *' '"' ''
	[ "$status" -eq 65 ]
	[[ $output == *$'\n'"[a  b][it's][\$HOME *][\"][]" || $output == *"[a  b][it's][\$HOME *][\"][]" ]]
	run "$@" /bin/sh -c 'kill -SEGV $$'
	[ "$status" -eq 139 ]
	run "$@" /bin/true
	[ "$status" -eq 0 ]
	run "$@" /nowhere/worker
	[ "$status" -eq 78 ]
	[[ $output == *"/nowhere/worker: No such file or directory"* ]]
}

# asked_to_end NODE-HOST...: SIGTERM reaches the command, and its end comes back.
asked_to_end() {
	start one "$@" /bin/sh -c 'trap "echo asked; exit 5" TERM; echo up; while :; do sleep 0.05; done'
	wait_for "grep -qx up one.err"
	kill "$PID"
	ended "$PID"
	[ "$status" -eq 5 ]
	grep -q asked one.err
}

# killed NODE-HOST...: nothing is left.
killed() {
	local n
	n=$(unique)
	start two "$@" /bin/sh -c "$(two "$n")"
	wait_for "grep -qx up two.err"
	sleeps "$n"
	kill -9 "$PID"
	wait_for "gone $n"
}

@test "--hold: what is held there outlives the command" {
	layouts d10
	server() {
		start "$1" node-host --hold h1 "$(command -v ps-server)" -s "$T/$1.sock" --id ps0 --layout "$T/d10" \
			--optimizer sgd --memory "$T/memory" "${@:2}"
		ready "$1.sock"
	}
	mkdir d
	server one
	[[ "$(ask one.sock "cut path=$T/d/1")" == "ok path="* ]]
	held=$(echo memory/part-0.*)
	[[ "$(readlink "$held")" == /proc/*/fd/* ]]
	kill -9 "$(pgrep -f "^[^ ]*/ps-server -s $T/one.sock")"
	ended "$PID"
	[ "$status" -eq 137 ]
	[ -s "$held" ]
	server two --restore "$T/d/1"
	grep -q 'd/1: restored from memory' two.err
	kill "$PID"
	ended "$PID"
	[ "$status" -eq 0 ]
	[ ! -e memory ]
	run -0 node-host h1 /bin/sh -c 'echo "[$PACELINE_KEEPER]"'
	[[ $output == *"[]"* ]]
}

@test "output, arguments, exit status and signal are the command's" {
	as_the_command node-host h1
	[[ $output != *"You have mail"* ]]
	run node-host h1 /bin/sh -c 'echo $PACELINE_HOST; cat'
	[ "$output" = h1 ]
	run node-host h1 printf '%s.' a b
	[ "$output" = a.b. ]
	run node-host h1 no-such-program
	[ "$status" -eq 78 ]
	[[ $output == *"node-host: h1: no-such-program: program is neither beside node-host nor on PATH"* ]]
	env -u PATH "$(command -v node-host)" --help >help
	grep -q -- --bring help
}

@test "the command begins in our directory, where there is one" {
	mkdir there 'a % dir'
	cd 'a % dir'
	HOME_THERE=$T/there run -0 node-host h1 /bin/sh -c 'cd . && /bin/pwd && echo "$PWD"'
	[[ $output == *"/a % dir"*"/a % dir" ]]
	cd ..
	in_dir() { # DIR: what the far end says of its own
		printf 'run host=x%s bytes=9\n/bin/pwd\0' "$1" >pipe
		(cd there && exec node-host --serve) <pipe 2>&1 >/dev/null
	}
	local fd
	mkfifo pipe
	exec {fd}<>pipe # its end would be that of the command
	[ "$(in_dir " dir=$T/bin")" -ef bin ]
	[ "$(in_dir " dir=$T/none")" -ef there ]
	[ "$(in_dir ' dir=../bin')" -ef there ]
	[ "$(in_dir '')" -ef there ]
}

@test "a signal reaches the command; its end is waited for" {
	asked_to_end node-host h1
	start late node-host h1 /bin/sh -c 'trap : TERM; echo up; sleep 1; sleep 1; exit 3'
	wait_for "grep -qx up late.err"
	kill -TERM "$PID"
	ended "$PID"
	[ "$status" -eq 3 ]
}

@test "SIGUSR1 that is ignored here ends neither the way there nor a command that has just begun" {
	printf '#!/bin/sh\nwhile [ -e hold ]; do sleep 0.05; done\n%s\n' 'exec env -i PATH="$PATH" sh -c "$WORDS"' >bin/far
	on_its_way() { # NAME COMMAND: the signal comes before anything is there
		touch hold
		rm -f ssh.pid
		start "$1" node-host h1 /bin/sh -c "$2"
		wait_for '[ -s ssh.pid ]'
		kill -USR1 "$PID"
		rm hold
		ended "$PID"
	}
	trap '' USR1
	on_its_way deaf 'kill -USR1 $$; exit 3'
	trap - USR1
	[ "$status" -eq 3 ]
	on_its_way hears 'exit 3'
	[ "$status" -eq 138 ]
	run node-host h1 /bin/sh -c 'kill -USR1 $$; exit 3'
	[ "$status" -eq 138 ]
}

@test "it ends by the command's signal, also if another one comes just then" {
	cc -shared -fPIC -o late.so -x c - <<-'C'
		#include <signal.h>
		#include <sys/resource.h>
		#include <unistd.h>
		int setrlimit(__rlimit_resource_t what, const struct rlimit *limit)
		{
			return what == RLIMIT_CORE && limit ? kill(getpid(), SIGUSR1) : 0;
		}
	C
	LD_PRELOAD=$T/late.so ASAN_OPTIONS=${ASAN_OPTIONS-}:verify_asan_link_order=0:disable_coredump=0 \
		run node-host h1 /bin/sh -c 'kill -9 $$'
	[ "$status" -eq 137 ]
}

@test "killed here, nothing of it is left there" {
	killed node-host h1
}

@test "a command that comes late, when who asked for it was killed, is not run" {
	local late
	exec {late}< <(printf 'run host=x bytes=16\n/bin/touch\0late\0')
	wait $!
	run node-host --serve <&"$late"
	[[ $output == *"err code=refused status=69 place="*"who asked for the command has gone: it is not run"* ]]
	[[ $output != *$'\nok'* ]]
	[ ! -e late ]
}

@test "ssh: six connections to a host are opened at once, the others in their turn" {
	cat >bin/slow <<-'SSH'
		#!/usr/bin/env bash
		echo $$ >>"$T/opened-${2%.*}"
		until [ -e "$T/go" ]; do sleep 0.01; done
	SSH
	sed -i "/^while/a . $T/bin/slow" bin/ssh
	export T
	for i in 1 2 3 4 5 6 7 8; do start "n$i" node-host "busy.$$" /bin/sh -c 'echo up'; done
	opened() { [ "$(wc -l <opened-busy)" = "$1" ]; }
	wait_for 'opened 6'
	start other node-host "free.$$" /bin/true
	wait_for '[ -s opened-free ]' # as a seventh would have by now
	opened 6
	# One that ends before it is open gives its place away.
	kill -9 "$(head -n 1 opened-busy)"
	wait_for 'opened 7'
	start other node-host "free.$$" /bin/true
	wait_for '[ "$(wc -l <opened-free)" = 2 ]'
	opened 7
	touch go
	wait_for 'opened 8'
	ended "$PID"
	[ "$status" -eq 0 ]
	wait_for '[ "$(cat n?.err | grep -cx up)" = 7 ]'
	[ "$(cat n?.err | grep -c "^node-host: busy.*: not reached: ssh ended: signal 9 ")" = 1 ]
}

@test "a lost connection is the end of it there, and exit status 255 here" {
	local n
	n=$(unique)
	start cut node-host h1 /bin/sh -c "$(two "$n")"
	wait_for "grep -qx up cut.err"
	kill -9 "$(cat ssh.pid)"
	ended "$PID"
	[ "$status" -eq 255 ]
	grep -q "h1: connection lost" cut.err
	wait_for "gone $n"
}

@test "the far end killed: what it has started goes, too" {
	local n whom far
	n=$(unique)
	for whom in younger elder; do
		start $whom node-host h1 /bin/sh -c "$(two "$n")"
		wait_for "grep -qx up $whom.err"
		far=$(younger "$n")
		[ $whom = younger ] || far=$(ps -o ppid= -p $far)
		kill -9 $far
		ended "$PID"
		[ "$status" -eq 255 ]
		wait_for "gone $n"
	done
}

@test "silence: the far end kills it, then this end gives the host up" {
	local n m far stopped
	n=$(unique) m=$((n + 1))
	start stopped node-host h1 /bin/sh -c "$(two "$m")"
	wait_for "grep -qx up stopped.err"
	stopped=$PID far=$(younger "$m")
	start silent node-host h1 /bin/sh -c "$(two "$n")"
	wait_for "grep -qx up silent.err"
	kill -STOP "$(cat ssh.pid)" $far
	wait_for "gone $n && gone $m"
	not kill -0 $far
	for PID in "$PID" "$stopped"; do
		ended "$PID"
		[ "$status" -eq 255 ]
	done
	grep -q "h1: no sign of life for 40 s" silent.err
	grep -q "h1: connection lost" stopped.err
}

@test "who asked has gone, or the elder, while the far end is stopped: it goes, too" {
	local n m k held
	n=$(unique) m=$((n + 1)) k=$((n + 2))
	start held node-host h1 /bin/sh -c "$(two "$n")"
	start gone node-host h1 /bin/sh -c "$(two "$m")"
	start elder node-host h1 /bin/sh -c "$(two "$k")"
	wait_for "grep -qx up held.err && grep -qx up gone.err && grep -qx up elder.err"
	held=$(younger "$n")
	kill -STOP "$held" $(younger "$m") $(younger "$k")
	kill -9 "$(pgrep -f "^[^ ]*node-host h1 /bin/sh -c sleep $m ")"
	kill -9 $(ps -o ppid= -p $(younger "$k"))
	wait_for "gone $m && gone $k"
	# and not because the far end has stood still for long
	sleeps "$n"
	kill -CONT "$held"
}

@test "--lock: an earlier command that still lives there is killed first, and nobody else" {
	local n m old far holder
	n=$(unique) m=$((n + 1))
	start old node-host --lock "$T/lock" h1 /bin/sh -c "$(two "$n")"
	wait_for "grep -qx up old.err"
	# given up here, and nobody there sees it
	far=$(younger "$n")
	kill -STOP $(ps -o ppid= -p $far) $far
	kill -9 "$PID"
	ended "$PID"
	sleeps "$n"
	start new node-host --lock "$T/lock" h1 /bin/sh -c "pgrep -f '^sleep $n\$'; $(two "$m")"
	wait_for "grep -qx up new.err"
	wait_for "grep -qx 'node-host: h1: process ${far// } had been given up here, and lived on: killed, with what it ran' new.err"
	[ "$(wc -l <new.err)" = 2 ]
	gone "$n"
	# Of several all are taken, and the last one is held.
	run -0 node-host --lock "$T/lock" --lock "$T/other" h1 /bin/sh -c "pgrep -f '^sleep $m\$'; echo up"
	[[ $output == *"had been given up here"* ]]
	[ "$(grep -vc "had been given up here" <<<"$output")" = 1 ]
	start last node-host --lock "$T/lock" --lock "$T/other" h1 /bin/sh -c "$(two "$n")"
	wait_for "grep -qx up last.err"
	run -0 node-host --lock "$T/lock" h1 /bin/sh -c 'echo up'
	[ "$output" = up ]
	sleeps "$n"
	# Of whom nobody knows what he is, he is named, and lives.
	python3 -c "import fcntl, time; f = open('$T/lock', 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print('has', flush=True); time.sleep(1000)" >holder &
	holder=$!
	wait_for "grep -q has holder"
	run -75 node-host --lock "$T/lock" h1 /bin/sh -c 'echo up'
	[ "$output" = "node-host: h1: $T/lock: process $holder has this lock and does not end: end it by hand" ]
	kill -9 $holder
	mkdir dir
	run -73 node-host --lock "$T/dir" h1 /bin/sh -c 'echo up'
	[[ $output == *"node-host: h1: $T/dir: lock can't be made"* ]]
}

@test "a host that is not reached, a kit that is not there" {
	run node-host dead /bin/true
	[ "$status" -eq 255 ]
	[[ $output == *"node-host: dead: not reached: ssh ended: exit status 255"* ]]
	run node-host --program /nowhere/node-host h1 /bin/true
	[ "$status" -eq 78 ]
	[[ $output == *"h1: /nowhere/node-host does not run there"* ]]
	printf '#!/bin/sh\necho paceline role=node-host version=1 program=0.0.1 host=x boot=y cores=1 memory-mib=1\ncat >/dev/null\n' >other
	chmod +x other
	run node-host --program "$T/other" h1 /bin/true
	[ "$status" -eq 78 ]
	[[ $output == *"h1: has Paceline 0.0.1"* ]]
}

@test "directories are made there, files brought and fetched" {
	mkdir -p from/deep
	head -c 3000000 /dev/zero | tr '\0' x >from/deep/big
	echo small >"from/a b"
	: >from/empty
	run node-host --make "$T/made/here" --bring "$T/from" h1 /bin/ls -R "$T/made"
	[ "$status" -eq 0 ]
	[ "$(stat -c %a made/here)" = 700 ]
	node-host --fetch "$T/from/deep/big=$T/big" --fetch "$T/from/empty=$T/empty" h1
	cmp big from/deep/big
	[ -e empty ]
	[ ! -s empty ]
	mkdir a=b
	echo old >a=b/c=d
	node-host --fetch "$T/a=b/c=d=$T/a=b/c=d" h1
	[ "$(cat a=b/c=d)" = old ]
	# one that is not there keeps no other from coming, and is said
	run node-host --fetch "$T/none=$T/none.here" --fetch "$T/from/deep/big=$T/big.again" \
		--fetch "$T/from/empty=$T/empty.again" h1
	[ "$status" -ne 0 ]
	[[ $output == *"$T/none: can't be read"* ]]
	cmp "$T/from/deep/big" "$T/big.again"
	[ -e empty.again ]
	run node-host --fetch "$T/none=$T/none.here" h1
	[ "$status" -eq 66 ]
	[[ $output == *"h1: $T/none: can't be read: No such file"* ]]
	[ ! -e none.here ]
}

@test "a file that comes slowly: signs of life are given meanwhile" {
	# longer than two signs of life are apart
	{ printf 'file path=%s bytes=4\nab' "$T/slow"; sleep 5; echo c; sleep 1; } | node-host --serve >said
	[ "$(cat slow)" = abc ]
	[ "$(grep -n -m 1 '^beat' said | cut -d : -f 1)" -lt "$(grep -n '^ok' said | cut -d : -f 1)" ]
}

@test "what can't be made there is said, and nothing is started" {
	: >file
	run node-host --make "$T/file/below" h1 /bin/sh -c 'echo started'
	[ "$status" -eq 73 ]
	[[ $output == *"node-host: h1: $T/file/below: can't be made"* ]]
	[[ $output != *started* ]]
	run node-host --bring "$T/nothing" h1 /bin/sh -c 'echo started'
	[ "$status" -eq 66 ]
	[[ $output != *started* ]]
}

@test "what is asked wrongly" {
	for words in "" "h1" "-- -x /bin/true" "a;b /bin/true" "--fetch x h1" "--fetch a=b h1 /bin/true" "--serve x"; do
		# shellcheck disable=SC2086
		run node-host $words
		[ "$status" -eq 64 ]
	done
}

@test "the far end takes what no good client says" {
	run node-host --serve <<<$'nonsense\nlook\nlook path=/none\nrun host=x bytes=3'
	[ "$status" -eq 0 ]
	[ "$(grep -c '^err ' <<<"$output")" -ge 3 ]
	run node-host --serve <<<"=x"
	[ "$status" -eq 0 ]
	head -c 100000 /dev/zero | tr '\0' a >long
	run node-host --serve <long
	[ "$status" -eq 0 ]
}

# on_hosts WORD...: the command on h1, by way of h0: as it ends, as it is asked to, as it is killed.
on_hosts() {
	local n
	run on h0 "$@" h1 /bin/sh -c 'echo "$PACELINE_HOST is $(hostname) [$1]"; exit 7' sh "a  b'c"
	[ "$status" -eq 7 ]
	[[ $output == *"h1 is h1 [a  b'c]"* ]]
	start asked "$HOSTS_COMMAND" on "$HOSTS" h0 "$@" h1 /bin/sh -c 'trap "echo asked; exit 5" TERM; echo up; while :; do sleep 0.05; done'
	wait_for "grep -qx up asked.err"
	kill "$(started_on "$PID")"
	ended "$PID"
	[ "$status" -eq 5 ]
	grep -q asked asked.err
	n=$(unique)
	start killed "$HOSTS_COMMAND" on "$HOSTS" h0 "$@" h1 /bin/sh -c "$(two "$n")"
	wait_for "grep -qx up killed.err"
	on h1 pgrep -f "^sleep $n\$"
	kill -9 "$PID"
	wait_for "not on h1 pgrep -f '^sleep $n\$'"
}

# far_says TEXT: a far end that says this to its first request, and waits.
far_says() {
	local version
	version=$(node-host --version | cut -d' ' -f2)
	printf '%s\n' '#!/bin/sh' "echo 'paceline role=node-host version=1 program=$version host=x boot=y cores=1 memory-mib=1'" \
		'read -r line' "printf '$1'" 'exec cat >/dev/null' >far-end
	chmod +x far-end
	run node-host --program "$T/far-end" h1 true
}

@test "a far end that says what it should not" {
	far_says 'nonsense here\n'
	[ "$status" -eq 65 ]
	[[ $output == *"node-host: h1: "* ]]
	far_says 'ok\nok\n'
	[ "$status" -eq 65 ]
	[[ $output == *"h1: sent an answer without a question"* ]]
	far_says 'end status=999\n'
	[ "$status" -eq 65 ]
	[[ $output == *"999"* ]]
	far_says "$(head -c 9000 /dev/zero | tr '\0' a)"
	[ "$status" -eq 65 ]
	[[ $output == *"too long"* ]]
	far_says 'err code=refused status=73 place=/x\tno room\n'
	[ "$status" -eq 73 ]
	[[ $output == *"node-host: h1: /x: no room"* ]]
}

@test "sshd on another host; a host that is gone" {
	rm bin/ssh
	hosts_up -n 2 -s
	on_hosts node-host
	start gone on h0 node-host h1 /bin/sh -c 'echo up; sleep 1000'
	wait_for "grep -qx up gone.err"
	hosts_kill h1
	ended "$PID"
	[ "$status" -eq 255 ]
}

@test "Slurm on another host" {
	hosts_up -n 2 -S
	start allocation on h0 salloc -Q -N2 sh -c 'env | grep ^SLURM_ >slurm; echo >held; sleep 1000'
	wait_for "[ -e held ]"
	on_hosts env $(tr '\n' ' ' <slurm) "$(command -v node-host)" --by slurm
	run on h0 env $(tr '\n' ' ' <slurm) "$(command -v node-host)" --by slurm --program /nowhere/n h1 true
	[ "$status" -eq 78 ]
	[[ $output == *"h1: /nowhere/n does not run there: the kit must lie at the same place"* ]]
	run on h0 env $(tr '\n' ' ' <slurm) "$(command -v node-host)" --by slurm h9 true
	[ "$status" -eq 255 ]
	[[ $output == *"srun: error: "*"h9: not reached: slurm ended: exit status 1"* ]]
}

# ---- tests ----

@test "--test: what this machine gives" {
	node-host --test --seconds 0.1 >out
	[ "$(wc -l <out)" = 1 ]
	[ "$(field cores <out)" -ge 1 ]
	[ "$(field compute <out)" -gt 1000000 ]
	[ "$(field memory <out)" -gt 1000000 ]
	[ "$(field wrong <out)" = 0 ]
	node-host --test . >out
	[ "$(field name <out)" = . ]
	[ "$(field state <out)" = good ]
	[ "$(field link <out)" = "" ]
	run -64 node-host --test -- 'a b'
	[[ $output == *"'a b' is no name of a host"* ]]
}

@test "--test: a host that is not reached is bad" {
	run -1 node-host --test . dead
	[[ $output == *"host-test name=dead compute= memory= link= state=bad why="* ]]
	[[ $output == *"host-test name=. "*" state=good why="* ]]
}

@test "--test: of several hosts the one with a slow link is named" {
	rm bin/ssh
	hosts_up -s
	hosts_link h2 1mbit
	run -1 on h0 node-host --test . h1 h2
	[[ $output == *"host-test name=h2 "*" state=bad why=link:"* ]]
}
