# What the tests' own tools need of their surroundings; sourced by all that are bash. The programs keep
# the rest as the user has it: see tests/surroundings.
unset CDPATH
unset POSIXLY_CORRECT # bats and these scripts are bash's own language
set +o posix
unset OPENBLAS_VERBOSE # lines of the library in the standard error that is compared
export LC_ALL=C # od, awk and bash write 0,5 elsewhere

# An awk that sees each line when it comes: mawk reads a pipe in blocks, that is, too late, unless it is told.
line_awk() {
	case $(awk -W version 2>&1 </dev/null) in
	mawk*) awk -W interactive "$@" ;;
	*) awk "$@" ;;
	esac
}

# $python is then one that has PyTorch; a bench is skipped where there is none.
find_torch() {
	for python in python3 /usr/bin/python3; do
		if $python -c 'import torch' 2>/dev/null; then return; fi
	done
	echo "bench name=${0##*/} skipped=python3-torch"
	exit 77
}

# Whether a process is of the test whose directory is $T. One that has ended gives its number back, and on
# a busy machine it is soon another's: that of another test even.
ours() {
	kill -0 "$1" 2>/dev/null || return 1
	[[ $(readlink "/proc/$1/cwd" 2>/dev/null) == "$T"* ]] ||
		grep -qs -- "$T" "/proc/$1/cmdline" ||
		[ "$(ps -o ppid= -p "$1" 2>/dev/null | tr -d ' ')" = "$$" ]
}

# kill_ours PID...: those of them that are there and ours.
kill_ours() {
	local pid
	for pid; do
		if ours "$pid"; then kill -9 "$pid" 2>/dev/null || true; fi
	done
}

# Sockets lie in the tests' directories, and have 108 bytes for their names; job files, lists of sockets
# and socat have blanks and commas between names.
export TMPDIR=${TMPDIR:-/tmp}
if [[ ${#TMPDIR} -gt 50 || $TMPDIR == *[!A-Za-z0-9./_-]* || ! -w $TMPDIR ]]; then TMPDIR=/tmp; fi
