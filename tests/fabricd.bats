# fabricd(8): hosts that are directories of one machine, a rank of one MPI world each.
# rooms: fabric
load helper
. "$BATS_TEST_DIRNAME/cluster/hosts.bash"
. "$BATS_TEST_DIRNAME/cluster/world.bash"

teardown_more() { hosts_down; }

setup_more() { needs_world; }

fabric() { world "a b c" "$@"; } # [OPTION]...

# rank_of HOST: its fabricd. mpirun names it, too, and may have a greater number.
rank_of() {
	local pid
	for pid in $(pgrep -x fabricd); do
		[[ $(tr '\0' ' ' <"/proc/$pid/cmdline") != *" --run-dir $T/$1 "* ]] || echo "$pid"
	done
}

@test "three hosts are one world, and say so" {
	fabric
	run ask "$T/b/fabric.sock" stat
	[ "${lines[0]}" = "host host=a rank=0" ]
	[ "${lines[2]}" = "host host=c rank=2" ]
	[[ ${lines[3]} == "stat host=b rank=1 size=3 "* ]]
}

@test "SIGTERM to one of them ends all, with 0, and no socket stays" {
	fabric
	kill "$(rank_of c)"
	ended "$WORLD"
	[ "$status" -eq 0 ]
	[ ! -e a/fabric.sock ]
	[ ! -e b/fabric.sock ]
	[ ! -e c/fabric.sock ]
}

@test "end does the same" {
	fabric
	run ask "$T/b/fabric.sock" end
	[ "$output" = ok ]
	ended "$WORLD"
	[ "$status" -eq 0 ]
	[ ! -e a/fabric.sock ]
}

# say_routes HOST TEXT: as the payload of `routes`.
say_routes() {
	printf 'routes bytes=%d\n%s\n' $((${#2} + 1)) "$2" | socat -t 300 - "UNIX-CONNECT:$T/$1/fabric.sock" |
		tail -n +2 | cut -f 1
}

@test "a daemon of one host answers on all, by its usual name" {
	echo "route socket=shardd.sock host=a" >routes
	fabric --routes "$T/routes"
	wait_for "[ -S b/shardd.sock ]"
	# It is not there yet.
	run socat -u UNIX-CONNECT:b/shardd.sock -
	[ "$output" = "" ]
	start shardd shardd -s a/shardd.sock -j j -n 1000
	ready a/shardd.sock
	run ask b/shardd.sock 'hello worker=w0' 'get worker=w0 generation=1'
	[[ ${lines[0]} == "ok generation=1 samples=1000 "* ]]
	[[ ${lines[1]} == "shard id=0 "* ]]
	run ask c/shardd.sock 'who worker=w0'
	[[ $output == *" id=0 "* ]]
	[ "$(stat -c %a b/shardd.sock)" = 600 ]
	# What is no route is not carried.
	[ ! -e c/other.sock ]
}

@test "when a worker has asked is not told to another host's daemon; all else is, to the byte" {
	echo "route socket=fake.sock host=a" >routes
	fabric --routes "$T/routes"
	start fake socat -u UNIX-LISTEN:a/fake.sock CREATE:got
	wait_for "[ -S a/fake.sock ]"
	wait_for "[ -S b/fake.sock ]"
	printf 'pull worker=w0 asked=123.45 dense=1\tasked=1\npush asked=1\n\n%%\1\nend' >said
	socat -u OPEN:said UNIX-CONNECT:b/fake.sock
	ended "$PID"
	sed 's/asked=123.45/asked=000.00/' said | cmp - got
}

@test "routes change for all hosts at once, by a request or by the file" {
	echo "route socket=x.sock host=a" >routes
	fabric --routes "$T/routes"
	wait_for "[ -S c/x.sock ]"
	run say_routes c "route socket=y.sock host=b"
	[ "$output" = ok ]
	[ ! -e b/x.sock ]
	[ ! -e c/x.sock ]
	[ -S a/y.sock ]
	[ -S c/y.sock ]
	[ ! -e b/y.sock ]
	run ask a/fabric.sock routes
	[ "${lines[0]}" = "route socket=y.sock host=b listens=1" ]
	echo "route socket=z.sock host=c" >routes
	kill -HUP "$(rank_of b)"
	wait_for "[ -S b/z.sock ]"
	wait_for "[ -S a/z.sock ]"
	wait_for "[ ! -e a/y.sock ]"
}

# left DIR NAME...: sockets of daemons that were killed.
left() {
	python3 - "$@" <<-'E'
		import os, socket, sys
		os.chdir(sys.argv[1])
		for name in sys.argv[2:]: socket.socket(socket.AF_UNIX).bind(name)
	E
}

@test "the sockets of killed daemons go where no route places them any more" {
	mkdir a b c
	left b ps1.sock ps1.sock.standby ps2.sock ps2.sock.standby ps3.sock ps3.sock.standby ps.sock.dead .sock
	fabric
	start live socat UNIX-LISTEN:b/live.sock,fork PIPE
	wait_for "[ -S b/live.sock ]"
	run say_routes c "route socket=ps2.sock host=b
route socket=ps3.sock host=a"
	[ "$output" = ok ]
	[ "$(ls -A b)" = "$(printf '%s\n' .sock fabric.sock fabric.sock.lock live.sock ps.sock.dead ps2.sock ps2.sock.standby ps3.sock)" ]
	run say_routes c "route socket=x.sock host=a"
	[ ! -e b/ps2.sock ]
	[ ! -e b/ps2.sock.standby ]
	[ -S b/live.sock ]
}

@test "routes of more than a message of the world has room for" {
	fabric
	local r
	r=$(seq -f 'route socket=a-rather-long-name-of-a-daemon-of-some-job-%05g.sock host=b' 1500)
	run say_routes c "$r"
	[ "$output" = ok ]
	for host in a b c; do [ "$(ask $host/fabric.sock routes | grep -c '^route ')" = 1500 ]; done
	[ -S a/a-rather-long-name-of-a-daemon-of-some-job-01500.sock ]
	run say_routes a "route socket=x.sock host=b"
	[ "$output" = ok ]
	[ "$(ask c/fabric.sock routes | grep -c '^route ')" = 1 ]
	run say_routes a "$(for i in 1 2 3; do echo "$r" | sed "s/=a/=$i/"; done)"
	[[ $output != ok* ]]
	[ "$(ask c/fabric.sock routes | grep -c '^route ')" = 1 ]
}

@test "routes that are wrong: the line is named, the old ones stay" {
	fabric
	run say_routes a "route socket=x.sock host=b"
	[ "$output" = ok ]
	run ask a/fabric.sock "routes bytes=54
route socket=y.sock host=b
route socket=y.sock host=c"
	[[ $output == "err code=bad-request"*"routes:2: socket=y.sock has two routes"* ]]
	run say_routes a "route socket=../x host=b"
	[[ $output == "err code=bad-request" ]]
	run ask b/fabric.sock routes
	[ "${lines[0]}" = "route socket=x.sock host=b listens=0" ]
	printf 'route socket=fabric.sock host=a\n' >routes
	mkdir d
	run fabricd --run-dir d --routes routes
	[ "$status" -eq 78 ]
	[[ $output == *"routes:1: socket=fabric.sock is every fabricd's own"* ]]
	run fabricd --run-dir d --routes no-such-file
	[ "$status" -eq 66 ]
}

@test "routes to what is no socket: a file, a link and the lock stay what they are" {
	mkdir a
	echo data >a/file
	ln -s "$T/elsewhere" a/link
	fabric
	run say_routes c "route socket=file host=b
route socket=link host=b
route socket=fabric.sock.lock host=b"
	[ "$output" = ok ]
	run say_routes c "route socket=x.sock host=b"
	[ "$output" = ok ]
	[ "$(cat a/file)" = data ]
	[ "$(readlink a/link)" = "$T/elsewhere" ]
	[ ! -e elsewhere ]
	[ -f a/fabric.sock.lock ]
	wait_for '[ "$(grep -c "$T/a/.*: exists and is not a socket: listening is tried again later" world.err)" = 3 ]'
}

@test "routes that are a pipe, or have become one, are not waited for" {
	mkdir a
	mkfifo pipe
	run -78 timeout 60 fabricd --run-dir a --host a --routes pipe
	[[ $output == *"pipe: is no regular file"* ]]
	echo "route socket=x.sock host=b" >routes
	start fabricd fabricd --run-dir a --host a --routes routes
	ready a/fabric.sock
	rm routes
	mkfifo routes
	kill -HUP "$PID"
	wait_for 'grep -q "routes: is no regular file: the old routes stay in force" fabricd.err'
	run -0 ask a/fabric.sock routes
	[ "${lines[0]}" = "route socket=x.sock host=b listens=1" ]
}

@test "a daemon moves: its name is free on the new host when the request is answered" {
	echo "route socket=shardd.sock host=a" >routes
	fabric --routes "$T/routes"
	start shardd shardd -s a/shardd.sock -j j -n 1000
	ready a/shardd.sock
	run ask b/shardd.sock 'hello worker=w0'
	[[ $output == "ok generation=1 "* ]]
	kill "$PID"
	ended "$PID"
	run say_routes a "route socket=shardd.sock host=b"
	[ "$output" = ok ]
	start shardd shardd -s b/shardd.sock -j j
	ready b/shardd.sock
	run ask a/shardd.sock 'hello worker=w0 generation=1'
	[[ $output == *"generation=1 "* ]]
}

@test "a rank that is killed ends the world; a new one takes its sockets over" {
	echo "route socket=shardd.sock host=a" >routes
	fabric --routes "$T/routes"
	start shardd shardd -s a/shardd.sock -j j -n 1000
	ready a/shardd.sock
	wait_for "[ -S c/shardd.sock ]"
	kill -9 "$(rank_of b)"
	ended "$WORLD"
	[ "$status" -eq 137 ]
	fabric --routes "$T/routes"
	run ask c/shardd.sock 'hello worker=w0'
	[[ $output == "ok generation=1 "* ]]
}

@test "a rank that stands still at the start: the others say that they wait, and end with 75" {
	local host args=()
	for host in a b c; do
		mkdir "$host"
		args+=(-n 1 sh -c "[ $host != b ] || kill -STOP \$\$; exec fabricd -d $T/$host --host $host" :)
	done
	unset 'args[-1]'
	start world mpirun --oversubscribe --bind-to none --mca odls_base_sigkill_timeout 0 "${args[@]}"
	ended "$PID"
	cat world.err
	[ "$status" -eq 75 ]
	grep -q "^fabricd: a: the MPI world has not begun after 20 s: it waits for other hosts$" world.err
	grep -q "^fabricd: c: the MPI world has not begun" world.err
	not grep -q "^fabricd: b:" world.err
	not pgrep -f "fabricd -d $T/"
}

@test "a rank that lives and does not move is named, and the world ends with 75" {
	fabric
	kill -STOP "$(rank_of b)"
	ended "$WORLD"
	cat world.err
	[ "$status" -eq 75 ]
	grep -q "^fabricd: b: nothing has come from its fabricd (rank 1) for 30 s" world.err
	not grep -q "^fabricd: [ac]: nothing" world.err
	not pgrep -f "fabricd --run-dir $T/"
}

@test "one that is stopped does not keep the next one from its socket; one that runs does" {
	start first fabricd --run-dir "$T/a" --host a
	local first=$PID
	ready a/fabric.sock
	run -75 fabricd --run-dir "$T/a" --host a
	[[ $output == *"another instance runs"* ]]
	kill -STOP "$first"
	start next fabricd --run-dir "$T/a" --host a
	ended "$first"
	[ "$status" -eq 137 ]
	wait_for 'grep -q "^fabricd: an earlier fabricd (pid $first) is stopped: killed" next.err'
	ready a/fabric.sock
}

@test "ranks that would sum differently: 78, and which" {
	run mpirun --oversubscribe --bind-to none -n 1 fabricd --run-dir "$T/a" --host a : \
		-n 1 fabricd --run-dir "$T/b" --host b --rounds rate
	[ "$status" -eq 78 ]
	[[ $output == *"fabricd: b: has --rounds rate, a has ring: all hosts need the same"* ]]
}

@test "two ranks of one name: 78, and which" {
	run mpirun --oversubscribe --bind-to none -n 2 fabricd --run-dir "$T/a" --host a
	[ "$status" -ne 0 ]
	run mpirun --oversubscribe --bind-to none -n 1 fabricd --run-dir "$T/a" --host a : \
		-n 1 fabricd --run-dir "$T/b" --host a
	[ "$status" -eq 78 ]
	[[ $output == *"fabricd: a: is the name of two ranks, 0 and 1"* ]]
}

# world_by WORD...: fabricd on h0, h1 and h2; shardd on h0. Their sockets lie on each host's own disk.
world_by() {
	D=$HOSTS/local/run
	echo "route socket=shardd.sock host=h0" >routes
	start world on h0 "$@"
	WORLD=$PID
	start shardd on h0 shardd -s "$D/shardd.sock" -j "$T/j" -n 1000
	wait_for "on h2 test -S $D/shardd.sock" || { cat world.out world.err; return 1; }
	wait_for "on h0 test -S $D/shardd.sock"
}

by_ssh() {
	local host args=()
	for host in h0 h1 h2; do
		args+=(-n 1 --host $host -x ASAN_OPTIONS "$(command -v fabricd)" -d "$HOSTS/local/run" --host $host --routes "$T/routes" :)
	done
	unset 'args[-1]'
	world_by mpirun --bind-to none --mca plm_rsh_agent ssh --mca btl_tcp_if_include eth0 \
		--mca oob_tcp_if_include eth0 --mca odls_base_sigkill_timeout 0 "${args[@]}"
}

# asked HOST LINE...: of shardd, at its usual name there.
asked() {
	local host=$1
	shift
	printf '%s\n' "$@" | on "$host" socat -t 300 - "UNIX-CONNECT:$D/shardd.sock" | tail -n +2
}

@test "three hosts over ssh: shardd answers on all; a link is down for a while, nothing is lost" {
	hosts_up -s
	by_ssh
	run asked h1 'hello worker=w1'
	[[ $output == "ok generation=1 "* ]]
	run asked h2 'hello worker=w2' 'get worker=w2 generation=1'
	[[ ${lines[1]} == "shard id=0 "* ]]
	hosts_link h1 down
	start late asked h1 'get worker=w1 generation=1' 'who worker=w1'
	late=$PID
	# The others go on.
	run asked h2 'who worker=w2'
	[[ $output == *" id=0 "* ]]
	[ ! -s late.out ]
	hosts_link h1 up
	ended "$late"
	[ "$(grep -c ^ok late.out)" -eq 2 ]
	on h0 socat - "UNIX-CONNECT:$D/fabric.sock" <<<end
	ended "$WORLD"
	[ "$status" -eq 0 ]
	not on h1 test -e "$D/shardd.sock"
}

@test "three hosts of Slurm, by srun" {
	hosts_up -S
	world_by env SLURM_PMIX_DIRECT_CONN=false srun --mpi=pmix --overlap -N 3 -n 3 \
		--ntasks-per-node=1 --kill-on-bad-exit=1 \
		"$(command -v fabricd)" -d "$HOSTS/local/run" --routes "$T/routes"
	run asked h1 'hello worker=w1'
	[[ $output == "ok generation=1 "* ]]
	run on h2 socat -t 300 - "UNIX-CONNECT:$D/fabric.sock" <<<stat
	[[ $output == *"host host=h0 rank=0"*"host host=h2 rank=2"*"stat host=h2 "* ]]
	# A rank that dies takes the others with it.
	on h1 pkill -9 -x fabricd
	ended "$WORLD"
	[ "$status" -ne 0 ]
	wait_for "! on h2 pgrep -x fabricd"
}

@test "the name of a host: Slurm's, ours, its own" {
	start one env -u SLURMD_NODENAME -u PACELINE_HOST fabricd --run-dir "$T/x"
	ready x/fabric.sock
	run ask x/fabric.sock stat
	[ "${lines[0]}" = "host host=$(uname -n) rank=0" ]
	run ask x/fabric.sock end
	start one env -u SLURMD_NODENAME PACELINE_HOST=ours fabricd --run-dir "$T/y"
	ready y/fabric.sock
	run ask y/fabric.sock stat
	[ "${lines[0]}" = "host host=ours rank=0" ]
	run ask y/fabric.sock end
	start one env SLURMD_NODENAME=slurm PACELINE_HOST=ours fabricd --run-dir "$T/z"
	ready z/fabric.sock
	run ask z/fabric.sock stat
	[ "${lines[0]}" = "host host=slurm rank=0" ]
}

@test "usage: 64" {
	run fabricd
	[ "$status" -eq 64 ]
	[[ $output == *"needs --run-dir DIR"* ]]
	run fabricd --run-dir "$T" --host "a b"
	[ "$status" -eq 64 ]
}

@test "an allocation fails: routes are in force and answered, or refused, or the world ends" {
	command -v cc >/dev/null || skip "no compiler here"
	cc -shared -fPIC -O1 -o failing-malloc.so "$BATS_TEST_DIRNAME/fault/failing-malloc.c" -ldl
	if grep -q __asan_init "$(type -P fabricd)"; then skip "not under a sanitizer"; fi
	export FAILING_OWN=1 FAILING_PROGRAM=fabricd FAILING_ALLOCATIONS=$T/allocations
	local k answer ends=0
	for ((k = 1; k <= 20; k++)); do
		if [ ! -S a/fabric.sock ]; then
			head -c 24 /dev/zero >allocations
			mkdir -p a
			start alone env LD_PRELOAD="$T/failing-malloc.so" fabricd -d a --host a
			ready a/fabric.sock
		fi
		# The kth from now on: count, nth.
		python3 - allocations $k <<-'END'
			import struct, sys
			with open(sys.argv[1], "r+b") as file:
			    count, = struct.unpack("q", file.read(8))
			    file.write(struct.pack("q", count + int(sys.argv[2])))
		END
		answer=$(r="route socket=s$k.sock host=a" && printf 'routes bytes=%d\n%s\n' $((${#r} + 1)) "$r" |
			timeout 20 socat -t 15 - UNIX-CONNECT:a/fabric.sock | tail -n +2 | cut -f 1)
		case $answer in
		ok | err\ code=*) ;;
		*)
			ended "$PID"
			[ "$status" -eq 71 ]
			[ ! -e a/fabric.sock ]
			ends=$((ends + 1))
			;;
		esac
	done
	[ $ends -gt 0 ]
}
