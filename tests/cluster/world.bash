# world.bash: hosts that are directories of this machine, with a world of fabricd(8) between them, for bats files,
# behind helper.

needs_world() {
	local program
	for program in fabricd mpirun; do
		command -v $program >/dev/null || skip "no $program here"
	done
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
	# The libraries of MPI keep what they have until the process is gone.
	export ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=0
}

# world "HOST ..." [OPTION]...: a fabricd on each; sockets of host X are in $T/X. mpirun is $WORLD.
world() {
	local host ranks=()
	for host in $1; do
		mkdir -p "$host"
		ranks+=(-n 1 fabricd --run-dir "$T/$host" --host "$host" "${@:2}" :)
	done
	unset 'ranks[-1]'
	start world mpirun --oversubscribe --bind-to none --mca odls_base_sigkill_timeout 0 "${ranks[@]}"
	WORLD=$PID
	for host in $1; do ready "$T/$host/fabric.sock" || { cat world.err; return 1; }; done
}
