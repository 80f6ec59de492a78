# Sourced: whether this machine lets us make control groups for memory.

# groups_of CONTROLLER: our group, of version 1, where they are told apart by their controllers; '': of 2.
groups_of() { sed -n "s/^[0-9]*:$1://p" /proc/self/cgroup; }

# no_groups: prints why there can be none; 1: there can be.
no_groups() {
	local dir
	if [ -d /run/systemd/system ]; then
		echo "systemd owns the control groups here"
		return
	fi
	dir=/sys/fs/cgroup/memory$(groups_of memory)
	if [ ! -e "$dir/memory.limit_in_bytes" ]; then
		dir=/sys/fs/cgroup$(groups_of '')
		grep -qsw memory "$dir/cgroup.subtree_control" || dir=
	fi
	[ -z "$dir" ] || [ ! -w "$dir" ] || return 1
	echo "no control group that we may divide"
}
