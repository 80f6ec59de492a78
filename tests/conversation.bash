# Sourced: a conversation with a daemon by hand, and what is in its records.

# ask SOCKET LINE...: prints what the daemon says, greeting left out.
ask() {
	local socket=$1
	shift
	printf '%s\n' "$@" | socat -t 300 - "UNIX-CONNECT:$socket" | tail -n +2
}

# field KEY: its values in the records on stdin.
field() { sed -n "s/.* $1=\([^ 	]*\).*/\1/p"; }

# open NAME SOCKET: a conversation; `tell NAME TEXT` says something, answers come in NAME.answers.
open() {
	local fd
	mkfifo "$1.in"
	socat - "UNIX-CONNECT:$2" <"$1.in" >"$1.answers" 3>&- &
	PIDS+=($!)
	exec {fd}>"$1.in"
	printf -v "FD_$1" %s "$fd"
	printf -v "PID_$1" %s "$!"
}

# hang_up NAME: ends it, whoever else has inherited its pipe; its name may be used again.
hang_up() {
	local name="FD_$1" pid="PID_$1"
	local fd=${!name}
	kill "${!pid}" 2>/dev/null || : # it has ended with the other side
	exec {fd}>&-
	rm "$1.in"
}

tell() {
	local fd="FD_$1"
	printf '%b' "$2" >&"${!fd}"
}

# answered NAME TEXT: until a line of the answers says TEXT.
answered() {
	wait_for "grep -aqE '$2' '$1.answers'" || { cat "$1.answers"; return 1; }
}
