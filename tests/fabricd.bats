# fabricd(8): hosts that are directories of one machine, a rank of one MPI world each.
load helper

setup_more() {
	command -v fabricd >/dev/null || skip "built without Open MPI"
	command -v mpirun >/dev/null || skip "no mpirun here"
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
	# The libraries of MPI keep what they have until the process is gone.
	export ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=0
}

# fabric [OPTION]...: hosts a, b and c; sockets of host X are in $T/X. mpirun is $WORLD.
fabric() {
	local host args=()
	for host in a b c; do
		mkdir -p "$host"
		args+=(-n 1 -x "PACELINE_HOST=$host" fabricd --run-dir "$T/$host" "$@" :)
	done
	unset 'args[-1]'
	start world mpirun --oversubscribe --bind-to none --mca odls_base_sigkill_timeout 0 "${args[@]}"
	WORLD=$PID
	for host in a b c; do ready "$T/$host/fabric.sock" || { cat world.err; return 1; }; done
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
	kill "$(pgrep -f "fabricd --run-dir $T/c" | tail -n 1)"
	ended "$WORLD"
	[ "$status" -eq 0 ]
	[ ! -e a/fabric.sock ]
	[ ! -e b/fabric.sock ]
	[ ! -e c/fabric.sock ]
}

@test "two ranks of one name: 78, and which" {
	run mpirun --oversubscribe --bind-to none -n 2 fabricd --run-dir "$T/a" --host a
	[ "$status" -ne 0 ]
	run mpirun --oversubscribe --bind-to none -n 1 fabricd --run-dir "$T/a" --host a : \
		-n 1 fabricd --run-dir "$T/b" --host a
	[ "$status" -eq 78 ]
	[[ $output == *"fabricd: a: is the name of two ranks, 0 and 1"* ]]
}

@test "usage: 64" {
	run fabricd
	[ "$status" -eq 64 ]
	[[ $output == *"needs --run-dir DIR"* ]]
	run fabricd --run-dir "$T" --host "a b"
	[ "$status" -eq 64 ]
}
