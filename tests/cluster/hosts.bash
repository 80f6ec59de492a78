# hosts.bash: the hosts of tests/cluster/hosts for bats files and crash tests. Sourced; $T is the
# test's directory, which all hosts see, as they do the programs. $HOSTS is theirs: $HOSTS/local is each
# one's own disk, from outside $HOSTS/h0, ... They go with the shell that called hosts_up; hosts_down
# waits until they are gone, so that what they wrote can be removed.
declare -F nap >/dev/null || . "${BASH_SOURCE[0]%/*}/../conversation.bash"
HOSTS_COMMAND=$(cd "${BASH_SOURCE[0]%/*}" && pwd)/hosts
HOSTS_PID=

# hosts_up [OPTION]...: as `hosts up` has them. Where there can be none the test is skipped: in bats,
# and in a script by exit status 77.
hosts_up() {
	local status=0
	HOSTS=$(readlink -f "$T")/hosts
	"$HOSTS_COMMAND" up -k "$T" ${PACELINE_BIN:+-k "$PACELINE_BIN"} "$@" "$HOSTS" >"$T/hosts.said" 2>&1 3>&- &
	HOSTS_PID=$!
	until [ -e "$HOSTS/ready" ]; do
		if ! kill -0 $HOSTS_PID 2>/dev/null; then
			wait $HOSTS_PID || status=$?
			HOSTS_PID=
			if [ $status != 77 ]; then
				cat "$T/hosts.said" >&2
				return 1
			fi
			if declare -F skip >/dev/null; then skip "$(tail -n 1 "$T/hosts.said")"; fi
			sed 's/^/# /' "$T/hosts.said"
			exit 77
		fi
		nap 50000
	done
}

hosts_down() {
	[ -n "$HOSTS_PID" ] || return 0
	kill $HOSTS_PID 2>/dev/null
	wait $HOSTS_PID 2>/dev/null
	HOSTS_PID=
	return 0
}

on() { "$HOSTS_COMMAND" on "$HOSTS" "$@"; }                 # HOST COMMAND...
hosts_link() { "$HOSTS_COMMAND" link "$HOSTS" "$1" "$2"; } # HOST RATE|none|down|up
hosts_kill() { "$HOSTS_COMMAND" kill "$HOSTS" "$1"; }      # HOST: every process at once
hosts_boot() { "$HOSTS_COMMAND" boot "$HOSTS" "$1"; }      # HOST: it is back

host_dies() { # HOST SECONDS: and is back after so long
	hosts_kill "$1"
	sleep "$2"
	hosts_boot "$1"
}

no_cable() { # HOST SECONDS
	hosts_link "$1" down
	sleep "$2"
	hosts_link "$1" up
}

# started_on PID: of `on HOST COMMAND &`, the pid by which COMMAND can be signalled from outside. (A
# kill -9 of PID itself is one of COMMAND; another signal would not reach it.)
started_on() {
	local pid=$1
	while [[ $(cat "/proc/$pid/comm") =~ ^(bash|hosts|nsenter|setpriv|bats.*)$ ]]; do
		pid=$(pgrep -P "$pid") || nap 20000
		pid=${pid:-$1}
	done
	echo "$pid"
}

# stranded HOST ID...: both processes of the node's far end there are stopped, and the end on h0 is killed. So the node
# lives on, and nobody minds it. Their pids there are added to $STRANDED.
stranded() {
	local id node far
	for id in "${@:2}"; do
		node=$(on "$1" pgrep -o -f "^[^ ]*(ps-server|agent|worker) .*--id $id( |\$)")
		far=$(on "$1" ps -o ppid= -p "$node")
		on "$1" kill -STOP $(on "$1" ps -o ppid= -p $far) $far
		on h0 pkill -9 -f "^[^ ]*node-host .*--id $id "
		STRANDED+=${STRANDED:+,}$node
	done
}

# mpirun_on HOST,HOST,... [WORD]...: one process on each host, over ssh (hosts_up -s), from the first.
mpirun_on() {
	local hosts=$1 count
	shift
	count=$(tr ',' '\n' <<<"$hosts" | wc -l)
	on "${hosts%%,*}" mpirun --host "$hosts" -np "$count" --map-by node --bind-to none \
		--mca plm_rsh_agent ssh --mca btl tcp,self --mca btl_tcp_if_include eth0 \
		--mca oob_tcp_if_include eth0 "$@"
}
