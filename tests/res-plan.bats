# rooms: plan
load helper
unset SLOW LINK

plan() {
	res-plan --cores 200 --node-cores 32 "$@"
}

# round STEPS WORKER-USED SERVER-USED [KEYS-OF-JOB]: of one worker and one server.
round() {
	printf 'job batch=512 steps-per-second=%s %s\n' "$1" "${4:-note=}"
	printf 'node role=worker id=w0 cores=32 used=%s\nnode role=server id=0 cores=16 used=%s\n' "$2" "$3"
}

@test "usage: help and version exit 0, mistakes 64" {
	run -0 res-plan --help
	[[ $output == "usage: res-plan "* ]]
	run -0 res-plan --version
	run -64 res-plan </dev/null
	[[ $output == *"--cores: the number of cores that the job may have is missing"* ]]
	run -64 res-plan --cores 8 </dev/null
	[[ $output == *"--node-cores: the number of cores that a node may have is missing"* ]]
	run -64 res-plan --cores 1 --node-cores 1 </dev/null
	run -64 plan --stage later </dev/null
	[[ $output == *"'later' is none of auto|sample|optimize|adjust"* ]]
	run -64 plan more </dev/null
}

@test "the published sample rows give the published plans" {
	round 12 2.5 5.7 >wide
	round 6.2 19.4 3.1 >deep
	for stage in optimize auto; do
		run -0 plan --stage $stage <wide
		[ "${lines[1]}" = "plan role=worker count=24 cores=3" ]
		[ "${lines[2]}" = "plan role=server count=8 cores=16" ]
		[[ ${lines[3]} == "decision change=yes reason=faster method=formula now=12 "* ]]
		run -0 plan --stage $stage <deep
		[ "${lines[1]}" = "plan role=worker count=8 cores=20" ]
		[ "${lines[2]}" = "plan role=server count=2 cores=16" ]
	done
}

@test "a job from its first plan to the best, round by round, and the same again in a replay" {
	{
		printf 'job batch=512 at=0\n\n'
		round 2 3 1 'at=100 io-time=0.1 compute-time=0.3 update-time=0.1'
	} >in
	run -0 --keep-empty-lines plan <in
	[ "${lines[0]}" = "plan role=worker count=1 cores=32" ]
	[ "${lines[1]}" = "plan role=server count=1 cores=16" ]
	[ "${lines[2]}" = "decision change=yes reason=first method=default now= expected= confidence=" ]
	[ "${lines[3]}" = "" ]
	[[ ${lines[4]} == "fit io-time=0."*" configurations=1 rounds=1" ]]
	[[ ${lines[7]} == "decision change=yes reason=faster method=search now=2 "* ]]
	plan <in >one
	plan <in >two
	cmp one two
}

@test "a round is answered before the next one comes" {
	mkfifo in out
	plan <in >out 3>&- &
	exec 4>in 5<out
	printf 'job batch=8\n\n' >&4
	read -r -u 5 -t 60 line
	[ "$line" = "plan role=worker count=1 cores=32" ]
	exec 4>&- 5<&-
	wait $!
}

@test "out of memory: double memory, half the batch, twice the servers" {
	printf '%s\n' 'job batch=512' 'node role=worker id=w0 cores=4 mem-bytes=4000000000 oom=1' \
		'node role=server id=0 cores=4' >in
	run -0 res-plan --cores 16 --node-cores 8 <in
	[ "${lines[0]}" = "replace role=worker id=w0 mem-bytes=8000000000 reason=oom" ]
	[[ ${lines[1]} == "decision change=yes reason=oom method=rule "* ]]
	run -0 res-plan --cores 16 --node-cores 8 --node-memory 7G <in
	[ "${lines[0]}" = "replace role=worker id=w0 batch=256 reason=oom" ]
	printf '%s\n' 'job batch=512' 'node role=worker id=w0 cores=4' \
		'node role=server id=0 cores=4 mem-bytes=1000 oom=1' >in
	run -0 res-plan --cores 16 --node-cores 8 <in
	[ "${lines[0]}" = "plan role=server count=2 cores=4 mem-bytes=1000" ]
}

@test "a hot server gets more cores; a slow one moves" {
	{
		printf 'job batch=512 steps-per-second=100\n'
		printf 'node role=worker id=w%d cores=4 used=3 time=0.1\n' 0 1 2 3
		printf 'node role=server id=%d cores=8 used=2 time=0.01\n' 0 1
	} >in
	{ cat in; echo 'node role=server id=2 cores=8 used=7.5 time=0.03'; } >hot
	run -0 plan --stage adjust <hot
	[ "${lines[1]}" = "replace role=server id=2 cores=12 reason=hot" ]
	{ cat in; echo 'node role=server id=2 cores=8 used=2 time=0.03'; } >slow
	run -0 plan --stage adjust <slow
	[ "${lines[1]}" = "migrate role=server id=2 reason=slow-machine" ]
	[[ ${lines[2]} == "decision change=yes reason=slow-machine method=rule "* ]]
	run -0 plan --stage adjust --slow 4 <slow
	[[ $output != *migrate* ]]
}

@test "a server of which more is asked gives some of it away, where servers can do that" {
	{
		printf 'job batch=512 steps-per-second=40 io-time=0.02 compute-time=0.04 update-time=0.04 %s\n' rebalance=1
		printf 'node role=worker id=w%d cores=4 used=3 time=0.1\n' 0 1 2 3
		printf 'node role=server id=%d cores=8 used=2 time=0.02\n' 0 1
	} >in
	{ cat in; echo 'node role=server id=2 cores=8 used=4 time=0.04'; } >hot
	run -0 plan <hot
	[ "${lines[1]}" = "rebalance role=server id=2 reason=hot" ]
	# A third of the update is saved: 4/(0.1 - 0.04/3) steps a second.
	[[ ${lines[2]} == "decision change=yes reason=hot method=rule now=40 expected=46.15"* ]]
	# Who can't do it, or would gain too little, or has a slow machine, does not.
	sed 's/ rebalance=1//' hot >cannot
	run -0 plan <cannot
	[[ $output != *rebalance* ]]
	run -0 plan --gain 0.2 <hot
	[[ $output != *rebalance* ]]
	{ cat in; echo 'node role=server id=2 cores=8 used=2 time=0.05'; } >slow
	run -0 plan <slow
	[ "${lines[1]}" = "migrate role=server id=2 reason=slow-machine" ]
	run -65 plan <<<'job batch=512 rebalance=2'
}

@test "memory counts also where only what is used is known" {
	{
		printf 'job batch=512 steps-per-second=40 io-time=0.02 compute-time=0.07 update-time=0.01\n'
		printf 'node role=worker id=w%d cores=4 used=3 used-bytes=1000000000\n' 0 1 2 3
		printf 'node role=server id=%d cores=8 used=2 used-bytes=2000000000\n' 0 1
	} >in
	run -0 res-plan --cores 100 --node-cores 8 --memory 20G <in
	workers=$(grep '^plan role=worker ' <<<"$output" | field count)
	[ "$workers" -gt 4 ]
	# 1.2 times what is in use, of servers all together.
	[ $((workers * 1200 + 4800)) -le 21475 ]
}

@test "changes are --every apart, and worth it" {
	round 12 2.5 5.7 'at=159 changed=100' >in
	run -0 plan <in
	[[ $output == *"decision change=no reason=every "* ]]
	run -0 plan --every 59 <in
	[[ $output == *"decision change=yes reason=faster "* ]]
	run -0 plan --every 59 --gain 50 <in
	[[ $output == *"decision change=no reason=gain "* ]]
	round 12 2.5 5.7 left=51200 >in
	run -0 plan <in
	[[ $output == *"decision change=yes "* ]]
	run -0 plan --change-cost 60 <in
	[[ $output == *"decision change=no reason=cost "* ]]
}

@test "the finished job alike most gives the first plan" {
	cat >past <<-'END'
		finished user=ann data=clicks model=lr workers=3 worker-cores=2 servers=1 server-cores=4
		finished user=bob data=clicks model=wdl workers=24 worker-cores=3 servers=8 server-cores=16 steps-per-second=210
	END
	run -0 plan --history past <<<'job batch=512 user=ann data=clicks model=wdl'
	[ "${lines[0]}" = "plan role=worker count=24 cores=3" ]
	[[ ${lines[2]} == "decision change=yes reason=first method=history now= expected=210 "*" user=bob data=clicks model=wdl" ]]
	run -0 plan --history past <<<'job batch=512 user=joe data=views model=wdl'
	[[ ${lines[2]} == *" method=default "* ]]
	run -0 plan --history /dev/null <<<'job batch=512'
	run -66 plan --history nothing <<<'job batch=512'
	echo 'finished workers=0 worker-cores=1 servers=1 server-cores=1' >>past
	run -65 --separate-stderr plan --history past <<<'job batch=512'
	[[ $stderr == "res-plan: past:3: "*"workers=: 0"* ]]
	[ -z "$output" ]
}

@test "bad input: 65 with the line number" {
	bad() {
		printf 'job batch=8\nnode role=worker id=ok cores=1\n%s\n' "$1" >in
		run -65 --separate-stderr plan <in
		[ -z "$output" ]
		[[ $stderr == "res-plan: stdin:3: "*"$2"* ]] || { echo "$1: $stderr"; false; }
	}
	bad 'job batch=8' 'a second job record in one round'
	bad 'node id=a cores=1' 'role= is missing'
	bad 'node role=chief id=a cores=1' "'chief' is neither worker nor server"
	bad 'node role=worker cores=1' 'id= is missing'
	bad 'node role=worker id=a' 'cores= is missing'
	bad 'node role=worker id=a cores=0' 'cores=: 0'
	bad 'node role=worker id=a cores=-1' 'cores=: -1'
	bad 'node role=worker id=a cores=nan' "'nan' is not a number"
	bad 'node role=worker id=a cores=1e9' 'cores='
	bad 'node role=worker id=a cores=1 used=-2' 'used='
	bad 'node role=worker id=a cores=1 used=inf' "'inf' is not a number"
	bad 'node role=worker id=a cores=1 mem-bytes=1.5' 'mem-bytes='
	bad 'node role=worker id=a cores=1 oom=2' 'oom='
	bad 'node role=worker id=a cores=1 time=0' 'time='
	bad 'node role=worker id=ok cores=1' 'worker id=ok appears twice'
	bad 'node role=worker id=a%2Fb cores=1' 'is no id'
	bad 'node role=worker  id=a' 'byte'
	printf 'job batch=8\n\n%s\n' 'job batch=0' >in
	run -65 --separate-stderr plan <in
	[[ $stderr == "res-plan: stdin:3: batch=: 0 is not in "* ]]
	for keys in steps-per-second=-1 at=x stage=never io-time=1 left=-1 samples=nan; do
		run -65 plan <<<"job batch=8 $keys"
		[[ $output == *"stdin:1: "* ]]
	done
	run -65 plan <<<'node role=worker id=a cores=1'
	[[ $output == *"stdin:1: a round without a job record"* ]]
	run -65 plan </dev/null
	[[ $output == *"stdin: no job record"* ]]
	printf 'job batch=8' >in
	run -65 plan <in
	[[ $output == *"the input ends without a newline"* ]]
}

@test "unknown types are passed over with one warning a type, or refused" {
	printf 'note a=1\njob batch=8 color=red\nnote a=2\n' >in
	run -0 --separate-stderr plan <in
	[ "${lines[0]}" = "plan role=worker count=1 cores=32" ]
	[ "${#stderr_lines[@]}" -eq 1 ]
	run -65 --separate-stderr plan --strict <in
	[[ $stderr == *"stdin:1: unknown record type 'note'"* ]]
}

@test "many nodes and many rounds; numbers at their ends" {
	{
		echo 'job batch=512 steps-per-second=1000'
		seq -f 'node role=worker id=w%.0f cores=0.01 used=0 time=1e9' 30000
		seq -f 'node role=server id=%.0f cores=100000 used=100000 mem-bytes=9007199254740992 used-bytes=9007199254740992' 300
	} >in
	run -0 plan <in
	[[ ${lines[-1]} == "decision change="* ]]
	for i in {1..300}; do
		round $((i % 7 + 1)) 2.5 5.7
		echo
	done >in
	plan <in >out
	[ "$(grep -c '^decision ' out)" -eq 300 ]
	printf '%s\n' 'job batch=9007199254740992 steps-per-second=1e12 samples=1e18 left=0 at=1e12 changed=0' \
		'node role=worker id=w cores=100000 used=1e-300' 'node role=server id=0 cores=0.01 used=100000' >in
	run -0 res-plan --cores 2 --node-cores 1 <in
	[[ ${lines[-1]} == "decision change="* ]]
	[[ $output != *nan* ]]
	[[ $output != *inf* ]]
}

@test "output that can't be written is an error" {
	run -74 bash -c 'res-plan --cores 8 --node-cores 4 <<<"job batch=8" >/dev/full'
}
