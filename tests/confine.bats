# What programs confine themselves to (paceline(7), SECURITY): each tries, as it ends, what one that was taken
# over would try.
# rooms: proc base
load helper
. "$BATS_TEST_DIRNAME/cluster/world.bash"

setup_more() {
	cc -shared -fPIC -O2 -o escape.so "$PACELINE_ROOT/tests/escape.c"
	mkdir own other
	printf 'layout version=1 seed=1\ntensor name=a rows=4 cols=1 init=zero\n' >own/layout
	echo secret >other/secret
	printf 'a,b\n1,2\n3,4\n' >own/d.csv
}

# tries PROGRAM ARG...: with tests/escape.c in it; what it tried is in `tried`.
tries() {
	rm -f tried other/new
	env LD_PRELOAD="$T/escape.so" ESCAPE="$T/tried" ESCAPE_READ="$T/other/secret" ESCAPE_WRITE="$T/other/new" "$@"
}

# refused WHAT...: each of these, and no other, was refused; a kernel without Landlock lets files be.
refused() {
	if grep -q '^landlock missing' tried; then skip "no Landlock here"; fi
	[ "$(awk '$2 ~ /^(EACCES|EPERM)$/ { print $1 }' tried | xargs)" = "$*" ]
}

# Sanitizers need what is refused here.
unwatched() {
	if grep -q __asan_init "$(type -P shardd)"; then skip "not under a sanitizer"; fi
}

# ends_when_told NAME PROGRAM ARG...: a daemon, which is there, and is then told to end.
ends_when_told() {
	local name=$1
	shift
	start "$name" tries "$@"
	ready "own/$name"
	kill "$(pgrep -P "$PID" -x "${1:0:15}" || echo "$PID")"
	ended "$PID"
	[ "$status" = 0 ]
}

ALL_BUT_READ='write run unix inet signal ring'

@test "programs that read what others wrote only read" {
	unwatched
	tries rowidx --count - <own/d.csv
	refused "$ALL_BUT_READ"
	tries rowidx own/d.csv
	refused "$ALL_BUT_READ"
	[ -s own/d.csv.rowidx ]
	tries rowidx --check own/d.csv
	refused "$ALL_BUT_READ"
	run tries ckpt list own
	refused "$ALL_BUT_READ"
	run tries predict -c own own/d.csv
	refused "$ALL_BUT_READ"
}

@test "a worker reads, and writes what its options name" {
	unwatched
	schema_file a '' format=csv label=b scale=none
	model_file lr 1 0
	run tries worker --id w0 --shards own/s --servers own/p --data own/d.csv --schema schema --model-file lr \
		--index-dir own --spare own/none --wait 0.01
	[ "$status" = 69 ]
	refused write run inet signal ring
}

@test "filters have their pipes, and nothing else" {
	unwatched
	echo '0.5 1' | tries auc
	refused "read $ALL_BUT_READ"
	echo '0.5 1' >own/scores
	tries auc own/scores
	refused "read $ALL_BUT_READ"
	echo 'a b=1' | tries plrec tsv b
	refused "read $ALL_BUT_READ"
	run tries bs-solve -B 10 </dev/null
	refused "read $ALL_BUT_READ"
	run tries xfer-sched </dev/null
	refused "read $ALL_BUT_READ"
	run tries res-plan --cores 4 --node-cores 2 </dev/null
	refused "read $ALL_BUT_READ"
	echo 'obs id=w0 k=1 speed=3' | tries speed-predict --save own/models
	refused "read $ALL_BUT_READ"
	[ -s own/models ]
	tries bpt-monitor --filter </dev/null
	refused "read $ALL_BUT_READ"
}

@test "daemons have their directories and their sockets" {
	unwatched
	ends_when_told shardd shardd -s own/shardd -j own/queue/journal -n 10
	refused read write run inet signal ring
	ends_when_told ps ps-server -s own/ps --id ps0 --layout own/layout
	refused read write run inet ring
	ends_when_told monitor bpt-monitor -s own/monitor --log own/log --prometheus own/page
	refused read write run inet signal ring
}

@test "fabricd has the directory of its sockets, files of mpirun, and the network" {
	unwatched
	needs_world
	ends_when_told fabric.sock fabricd -d own --host a
	refused write run ring
	export -f tries
	export T
	rm tried
	start world mpirun --oversubscribe --bind-to none -n 1 fabricd -d own/a --host a : \
		-n 1 bash -c 'tries fabricd -d own/b --host b'
	ready own/b/fabric.sock
	[ "$(ask own/a/fabric.sock end)" = ok ]
	ended "$PID"
	[ "$status" = 0 ]
	refused write run ring
	# What another transport than TCP needs is not known.
	OMPI_MCA_btl=self ends_when_told fabric.sock fabricd -d own --host a
	refused
}

@test "a client can't have shardd write or read outside of its directory" {
	unwatched
	tries true
	refused
	mkdir own/queue
	start shardd shardd -s own/s -j own/queue/journal -n 10
	ready own/s
	run ask own/s "save file=$T/own/queue/cut" "load file=$T/own/queue/cut" "save file=$T/other/cut" \
		"load file=$T/other/secret"
	[[ ${lines[0]} == 'ok bytes='* ]]
	[[ ${lines[1]} == 'ok incarnation='* ]]
	[[ ${lines[2]} == 'err code=file'*'ermission denied'* ]]
	[[ ${lines[3]} == 'err code=file'*'ermission denied'* ]]
	not test -e other/cut
}

@test "PACELINE_CONFINE=off leaves them as they are" {
	echo '0.5 1' | PACELINE_CONFINE=off tries auc
	refused
	[ "$(cat other/new)" = "" ]
}

@test "each program is built so that a mistake in memory is hard to use" {
	unwatched
	local program wrong=
	for program in "$(dirname "$(type -P shardd)")"/*; do
		readelf -hW "$program" | grep -q 'Type: *DYN' || wrong+=" $program:position"
		readelf -lW "$program" | grep -q GNU_RELRO || wrong+=" $program:relro"
		readelf -lW "$program" | grep -q 'GNU_STACK.* RW ' || wrong+=" $program:stack"
		readelf -dW "$program" | grep -q 'Flags:.*NOW' || wrong+=" $program:now"
		readelf -W --dyn-syms "$program" | grep -q ' __stack_chk_fail' || wrong+=" $program:protector"
		readelf -W --dyn-syms "$program" | grep -q ' __snprintf_chk' || wrong+=" $program:fortify"
	done
	[ -z "$wrong" ] || {
		echo "$wrong"
		false
	}
}

@test "a shell is where a command of the user is meant, or another host" {
	cd "$PACELINE_ROOT"
	not grep -rnE '\<(system|popen|wordexp)\(' --include='*.[ch]' lib cmd
	# The template of a launcher and srun; TRAINER; whether a word of the user is a command here.
	# What another host is told: ssh(1) has a shell there anyway.
	diff - <(grep -rcE '"(/bin/)?(ba|da)?sh", "-c"' --include='*.[ch]' lib cmd | grep -v ':0$' | LC_ALL=C sort) <<-'END'
		cmd/trainctl/check.c:1
		lib/proc/launcher.c:2
		lib/run/hosts.c:1
		lib/run/more_hosts.c:1
		lib/run/parts.c:2
		lib/run/role.c:1
	END
}
