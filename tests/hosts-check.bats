# What trainctl check (and run, before it starts anything) asks the other hosts of a job.
load helper
load cluster/hosts

setup_more() {
	awk 'BEGIN { print "y,a,b"; for (i = 0; i < 500; i++) print i % 2 "," i ",c" i % 7 }' >d.csv
	job WORKERS=3 HOSTS=h0,h1,h2
	command -v fabricd >/dev/null || skip "built without Open MPI"
}

teardown_more() { hosts_down; }

check() { run on h0 trainctl check job.env --run-dir /tmp/r --state-dir "$T/state" "$@"; }

@test "hosts that can do it" {
	hosts_up -n 3 -s
	check
	[ "$status" -eq 0 ]
	[[ $output == *" hosts=3 launcher=ssh "* ]]
	[ ! -e state ]
	not on h1 test -e /tmp/r
	run on h0 trainctl run job.env --run-dir /tmp/r --state-dir "$T/state" -s HOSTS=h0,h1,h9
	[ "$status" -eq 69 ]
	[[ $output == *"h9: not reached"* ]]
	# nothing of it is left but what is made first
	[ -z "$(ls -A state/journal)" ]
	[ -z "$(find . -name '.paceline-token*')" ]
}

@test "job.log says how each host is reached, and what it sees" {
	hosts_up -n 2 -s
	job WORKERS=2 SERVERS=1 HOSTS=h1,h0
	run on h0 trainctl run job.env --run-dir /tmp/r --state-dir "$T/state"
	[ "$status" -eq 0 ]
	grep '^host ' state/job.log >said
	[ "$(plrec tsv name launcher trains <said | head -n 1)" = $'h0\tlocal\t1' ]
	[ "$(plrec tsv name launcher sees-state trains <said | tail -n 1)" = $'h1\tssh\t1\t1' ]
	run on h0 trainctl run job.env --run-dir /tmp/r --state-dir "$HOSTS/local/state" -s HOSTS=h1 -s WORKERS=1
	[ "$status" -eq 0 ]
	[[ $output == *"host h1: ssh, "*"; does not see the state directory"* ]]
	[ "$(grep '^host name=h0 ' hosts/h0/state/job.log | field trains)" = 0 ]
	[ "$(grep '^host name=h1 ' hosts/h0/state/job.log | field sees-state)" = 0 ]
}

@test "a host that does not answer keeps nobody from minding the nodes that run" {
	local pid
	hosts_up -n 2 -s
	job WORKERS=2 SERVERS=1 HOSTS=h0,h1 EPOCHS=1000
	slow 300
	start first "$HOSTS_COMMAND" on "$HOSTS" h0 trainctl run job.env --run-dir /tmp/r --state-dir "$T/state"
	wait_for "grep -qs 'id=w0 kind=ready' state/job.log"
	kill -9 "$PID"
	wait_for "not on h0 pgrep -f '^trainctl run'"
	hosts_link h1 down
	start second "$HOSTS_COMMAND" on "$HOSTS" h0 trainctl run job.env --run-dir /tmp/r --state-dir "$T/state"
	wait_for "grep -q 'run already and are adopted' second.err"
	grep -q "trainctl: h1: node-host: has not answered a question for 5 s" second.err
	check
	[ "$status" -eq 75 ]
	kill -9 "$PID"
	hosts_down
}

@test "all that is wrong is said at once, of each host" {
	hosts_up -n 3 -s
	cp d.csv hosts/h0/d.csv
	head -n 10 d.csv >hosts/h1/d.csv
	check -s "DATA=$HOSTS/local/d.csv" -s HOSTS=h9,h0,h1,h2
	[ "$status" -eq 78 ]
	[[ $output == *"trainctl: h9: not reached: ssh ended: exit status 255: ssh: Could not resolve hostname h9"* ]]
	[[ $output == *"trainctl: h1: $HOSTS/local/d.csv: DATA has 69 bytes there, and "*" on h0"* ]]
	[[ $output == *"trainctl: h2: $HOSTS/local/d.csv: can't be read: No such file or directory"* ]]
	[[ $output == *"HOSTS: 3 things are wrong on the hosts, all named above"* ]]
	# what may be well next time has another status
	check -s HOSTS=h0,h9
	[ "$status" -eq 69 ]
	[[ $output == *"HOSTS: 1 thing is wrong"* ]]
}

@test "copies of DATA that are equally long and differ are refused" {
	hosts_up -n 3 -s
	cp d.csv hosts/h0/d.csv
	cp d.csv hosts/h1/d.csv
	touch -d 2001-01-01 hosts/h1/d.csv # another time is no difference
	sed '251s/,249,/,942,/' d.csv >hosts/h2/d.csv
	not cmp -s d.csv hosts/h2/d.csv
	[ "$(stat -c %s d.csv)" = "$(stat -c %s hosts/h2/d.csv)" ]
	check -s "DATA=$HOSTS/local/d.csv"
	[ "$status" -eq 78 ]
	[[ $output == *"trainctl: h2: $HOSTS/local/d.csv: DATA has as many bytes there as on h0, but other content"* ]]
	[[ $output == *"HOSTS: 1 thing is wrong"* ]]
	cp d.csv hosts/h2/d.csv
	check -s "DATA=$HOSTS/local/d.csv"
	[ "$status" -eq 0 ]
}

@test "what is wrong here, and a host without room, are said in the same go" {
	hosts_up -n 2 -s
	mkdir "$HOSTS/h0/tools"
	for tool in /usr/bin/*; do
		case ${tool##*/} in
		mpirun* | mpiexec* | orterun*) ;;
		*) ln -s "$tool" "$HOSTS/h0/tools/" ;;
		esac
	done
	less=$HOSTS/local/tools:${PACELINE_BIN:-$PACELINE_ROOT/build/bin}
	run on h0 env PATH="$less" trainctl check job.env --run-dir /tmp/r --state-dir "$HOSTS/small/state" \
		-s HOSTS=h0,h1,h9 -s MODEL=wdl,hash-bits:20,hidden:2000-2000
	[ "$status" -eq 78 ]
	[[ $output == *"trainctl: h0: mpirun: is needed between hosts, and is not there"* ]]
	[[ $output == *"trainctl: h9: not reached"* ]]
	[[ $output == *"trainctl: HOSTS: 2 things are wrong on the hosts, all named above"* ]]
	[[ $output == *"trainctl: h1: $HOSTS/small/state: has room for "* ]]
	run on h0 env PATH="$less" trainctl check job.env --run-dir /tmp/r --state-dir "$T/state" -s HOSTS=h0,h9 \
		-s DATA="$T/none.csv"
	[ "$status" -eq 78 ]
	[[ $output == *"trainctl: h0: mpirun: "*"trainctl: $T/none.csv: can't be read: No such file"* ]]
	[ ! -e state ]
}

@test "a run directory that hosts share; one that can't be made; a full disk" {
	hosts_up -n 3 -s
	run on h0 trainctl check job.env --run-dir "$T/r"
	[ "$status" -eq 78 ]
	[[ $output == *"h1: $T/r: is the same directory as here"* ]]
	on h1 sh -c ': >/tmp/r'
	check
	[ "$status" -ne 0 ]
	[[ $output == *"h1: /tmp/r: "* ]]
	[[ $output != *"h2:"* ]]
	on h1 rm /tmp/r
	# a job that runs from h1 has its state there
	on h1 mkdir -p "$HOSTS/local/state/journal"
	check --state-dir "$HOSTS/local/state"
	[ "$status" -eq 78 ]
	[[ $output == *"h1: $HOSTS/local/state: holds a run of that host's own: choose another --state-dir"* ]]
	[[ $output != *"h2:"* ]]
	on h1 rm -r "$HOSTS/local/state"
	check --state-dir "$HOSTS/small/state" -s MODEL=wdl,hash-bits:20,hidden:2000-2000
	[ "$status" -eq 74 ]
	[[ $output == *"h1: $HOSTS/small/state: has room for "*" there, and a checkpoint may need "* ]]
}

@test "a host that is silent is named before the deadline" {
	hosts_up -n 2 -s
	hosts_link h1 down
	check -s HOSTS=h0,h1
	[ "$status" -eq 69 ]
	[[ $output == *"h1: not reached"* || $output == *"h1: no answer"* ]]
}

@test "a kit that is not there, or another one; a host that is this machine" {
	hosts_up -n 3 -s
	mkdir kit
	cp "${PACELINE_BIN:-$PACELINE_ROOT/build/bin}"/* kit
	mkdir "$HOSTS/h0/kit" "$HOSTS/h1/kit" "$HOSTS/h2/kit"
	cp kit/* "$HOSTS/h0/kit"
	printf '#!/bin/sh\necho paceline role=node-host version=1 program=0.0.1 host=h1 boot=x cores=1 memory-mib=1\nexec cat >/dev/null\n' >"$HOSTS/h1/kit/node-host"
	chmod +x "$HOSTS/h1/kit/node-host"
	run on h0 "$HOSTS/local/kit/trainctl" check job.env --run-dir /tmp/r --state-dir "$T/state"
	[ "$status" -eq 78 ]
	[[ $output == *"h1: has Paceline 0.0.1 at $HOSTS/local/kit/node-host, and here it is "* ]]
	[[ $output == *"h2: $HOSTS/local/kit/node-host does not run there"* ]]
	check -s HOSTS=10.77.0.1,h1
	[ "$status" -eq 78 ]
	[[ $output == *"10.77.0.1: HOSTS: is the same machine as h0"* ]]
	check -s HOSTS=h0,h1,user@h1
	[ "$status" -eq 78 ]
	[[ $output == *"h1: HOSTS: is the same machine as "*h1* ]]
}

@test "Slurm: the hosts of the allocation" {
	hosts_up -n 3 -S
	sed -i /HOSTS/d job.env
	run on h0 salloc -Q -N3 trainctl check job.env --run-dir /tmp/r --state-dir "$T/state"
	[ "$status" -eq 0 ]
	[[ $output == *" hosts=3 launcher=slurm "* ]]
	run on h0 salloc -Q -N2 trainctl check job.env --run-dir /tmp/r --state-dir "$T/state" -s HOSTS=localhost
	[ "$status" -eq 0 ]
	[[ $output == *" hosts=1 launcher=local "* ]]
}
