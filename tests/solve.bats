# trainctl solve, replay: each built-in solution, by snapshots as they are typed.
# rooms: solve
load helper
unset UP PS0 PS1

# Six workers of the same batch; what each says of its speed is the second word.
six() {
	echo "job at=1000 iter=40 workers=6 servers=2 short=1 long=600"
	local i=0
	for speed in "$@"; do
		echo "node role=worker id=w$i state=up size=80 speed-short=${speed%/*} speed-long=${speed#*/} samples=4000 restarts=0 up=${UP:-700}"
		i=$((i + 1))
	done
	echo "node role=server id=ps0 state=up size=480 short=0.01 long=0.01 ratio-short=1 ratio-long=${PS0:-1} up=700"
	echo "node role=server id=ps1 state=up size=480 short=0.01 long=0.01 ratio-short=1 ratio-long=${PS1:-1} up=700"
}

# Kind, node, size of each action.
kinds() {
	plrec tsv kind role id size accum <<<"$output" | tr '\t' ' '
}

@test "antdt-nd: no node is slow: none" {
	run trainctl solve antdt-nd < <(six 1200 1200 1200 1100 1200 1200)
	[ "$status" -eq 0 ]
	[ "$(kinds)" = "none - - - -" ]
	[[ $output == *reason=*no%20node%20is%20slow* ]]
}

@test "antdt-nd: slow in the short window: sizes, the exact split" {
	run trainctl solve antdt-nd -o batch=480 < <(six 1200/1200 1200/1200 1200/1200 1200/1200 600/1200 240/1200)
	[ "$status" -eq 0 ]
	[ "$(grep -c kind=adjust-bs <<<"$output")" = 6 ]
	# As bs-solve has it.
	printf 'worker id=w%d speed=%d\n' 0 1200 1 1200 2 1200 3 1200 4 600 5 240 >rows
	diff <(bs-solve -B 480 -m share <rows | plrec where type=batch | plrec tsv id size) <(plrec tsv id size <<<"$output")
}

@test "antdt-nd: slow in the long window: kill-restart, but not when busy, young or restarted" {
	run trainctl solve antdt-nd < <(six 1200 1200 1200 1200 1200 240 | sed '/id=w5/s/size=80/size=19/; /id=w[0-4]/s/size=80/size=92/')
	[ "$status" -eq 0 ]
	[[ $output == *"kind=kill-restart role=worker id=w5 reason="* ]]
	[ "$(grep -c kill-restart <<<"$output")" = 1 ]
	six 1200 1200 1200 1200 1200 240 >slow
	run trainctl solve antdt-nd < <(cat slow; echo 'info name=pending value=60 age=1')
	[ "$status" -eq 0 ]
	[[ $output != *kill-restart* ]]
	[[ $output == *adjust-bs* ]]
	run trainctl solve antdt-nd -o pending=90 < <(cat slow; echo 'info name=pending value=60 age=1')
	[[ $output == *kill-restart* ]]
	run trainctl solve antdt-nd < <(UP=599 six 1200 1200 1200 1200 1200 240)
	[[ $output != *kill-restart* ]]
	run trainctl solve antdt-nd < <(sed 's/restarts=0/restarts=3/' slow)
	[[ $output != *kill-restart* ]]
	run trainctl solve antdt-nd -o sync=asp <slow
	[ "$(kinds)" = "kill-restart worker w5 - -" ]
}

@test "antdt-nd: a slow server is restarted" {
	run trainctl solve antdt-nd < <(PS0=0.6 PS1=1.4 six 1200 1200 1200 1200 1200 1200)
	[ "$status" -eq 0 ]
	[ "$(kinds)" = "kill-restart server ps1 - -" ]
}

@test "backup, lb-bsp, pace, antdt-dd: an action each, with its reason" {
	six 1200 1200 1200 1200 600 240 >slow
	for name in backup:1 backup:2 lb-bsp pace antdt-dd; do
		run trainctl solve $name <slow
		[ "$status" -eq 0 ]
		[ "$(grep -c '^action ' <<<"$output")" = "$(grep -c ' reason=.' <<<"$output")" ]
		echo "$output" >once
		trainctl solve $name <slow | diff once -
	done
	run trainctl solve backup:2 <slow
	[[ $output == "action kind=backup-workers count=2 reason="* ]]
	run trainctl solve antdt-dd <slow
	[[ $output == *"w0%20has%20not%20measured"* ]]
	for name in backup backup: backup:x lb antdt; do
		run trainctl solve $name <slow
		[ "$status" -eq 64 ]
	done
}

@test "antdt-dd: full batches on fast devices" {
	{
		echo "job at=1 iter=1 workers=4 servers=0 short=1 long=2"
		printf 'node role=worker id=w%d state=up size=200 accum=1 type=%s device-speed=%d saturation=32 max=100\n' \
			0 v100 300 1 v100 300 2 p100 100 3 p100 100
	} >devices
	run trainctl solve antdt-dd <devices
	[ "$(kinds)" = "adjust-bs - w0 100 3
adjust-bs - w1 100 3
adjust-bs - w2 100 1
adjust-bs - w3 100 1" ]
	run trainctl solve antdt-dd -o batch=800 < <(sed '/v100/s/size=200 accum=1/size=300 accum=3/; /p100/s/size=200/size=100/' devices)
	[ "$(kinds)" = "none - - - -" ]
}

@test "pace says what it saves and what it costs" {
	{
		six 1200 1200 1200 1200 1200 240
		echo 'info name=samples-left value=1000000 age=0'
		echo 'info name=restart-worker value=2 age=0'
	} >slow
	run trainctl solve pace <slow
	[ "$status" -eq 0 ]
	[[ $output == *kill-restart*w5*saves*costs* ]]
	run trainctl solve pace < <(sed 's/left value=1000000/left value=1000/' slow)
	[[ $output != *kill-restart* ]]
	[[ $output == *adjust-bs*saves* ]]
}

@test "replay: any solution over what a log holds, with the options of then" {
	{
		echo 'decision solution=antdt-nd batch=480 lambda=1.3 pending=60 sync=bsp limit=3 at=1'
		six 1200/1200 1200/1200 1200/1200 1200/1200 600/1200 240/1200
		echo 'action kind=none'
		echo 'decided actions=1'
		echo 'decision solution=backup:2 batch=480 lambda=1.3 at=2'
		six 1200 1200 1200 1200 1200 1200
		echo 'decided actions=0'
	} >job.log
	run trainctl solve --log job.log
	[ "$status" -eq 0 ]
	[ "$(grep -c adjust-bs <<<"$output")" = 6 ]
	[[ $output == *"decision solution=backup:2 at=2"*"kind=backup-workers count=2"* ]]
	run trainctl solve --log job.log backup:1
	[ "$(grep -c 'count=1' <<<"$output")" = 2 ]
	for name in none even lb-bsp lb-bsp-gpu antdt-nd antdt-dd pace; do
		run trainctl solve --log job.log $name
		[ "$status" -eq 0 ]
		[ "$(grep -c '^decision solution='$name <<<"$output")" = 2 ]
	done
	sed -i 's/sync=bsp/sync=nosuch/' job.log
	run trainctl solve --log job.log
	[ "$status" -eq 65 ]
	[[ $output == *job.log:1:* ]]
}

@test "replay: an executable decides again, too" {
	{
		echo "decision solution=$T/mine batch=480 lambda=1.5 pending=60 sync=bsp limit=3 at=1"
		six 1200 1200 1200 1200 600 240
		echo 'decided actions=1'
		echo "decision solution=$T/mine batch=100 lambda=1.3 pending=60 sync=bsp limit=3 at=2"
		six 1200 1200 1200 1200 1200 1200
		echo 'decided actions=0'
	} >job.log
	printf '%s\n' '#!/bin/sh' 'echo "action kind=none reason=$(grep -c "^node ")-$1-$2"' >mine
	chmod +x mine
	run trainctl solve --log job.log
	[ "$status" -eq 0 ]
	[ "$output" = "decision solution=$T/mine at=1
action kind=none reason=8-batch=480-lambda=1.5
decision solution=$T/mine at=2
action kind=none reason=8-batch=100-lambda=1.3" ]
	printf '%s\n' '#!/bin/sh' 'exit 3' >broken
	chmod +x broken
	run trainctl solve --log job.log broken
	[ "$status" -eq 1 ]
	[[ $output == *"job.log:11: solution broken: exit status 3"*"2 of 2 decisions failed"* ]]
	mkdir 'a b' && cp mine 'a b'
	run trainctl solve --log job.log 'a b/mine'
	[ "$status" -eq 0 ]
	[[ $output == "decision solution=a%20b/mine at=1"* ]]
	for name in nosuch ./ 'a b'; do
		run trainctl solve "$name" </dev/null
		[ "$status" -eq 64 ]
	done
	run trainctl solve --log job.log nosuch
	[ "$status" -eq 64 ]
	[[ $output == *nosuch* ]]
}

@test "even: more workers than samples: none, with the reason" {
	run trainctl solve even -o batch=5 < <(six 1200 1200 1200 1200 1200 1200)
	[ "$status" -eq 0 ]
	[ "$(kinds)" = "none - - - -" ]
	[[ $output == *reason=*5%20samples* ]]
	run trainctl solve even -o batch=480 -o least=81 < <(six 1200 1200 1200 1200 1200 1200)
	[ "$(kinds)" = "none - - - -" ]
	[[ $output == *reason=*81%20each%20at%20least* ]]
}

@test "every solution and every option stands in the pages, and in a job file" {
	local man=$PACELINE_ROOT/man name key job_key n=0
	trainctl solve --help >help
	trainctl init --keys >keys # no pipe: grep -q hears no more than it needs
	for name in $(awk '/^NAME is/ { on = 1; next } /^$/ { on = 0 } on { print $1 }' help); do
		grep -q "^\.It Cm ${name%N}" "$man/paceline-solution.7"
		grep -q "^\.It Cm ${name%N}" "$man/trainctl.1"
		grep -q "[ :]${name//./\\.} ," "$man/paceline-job.5"
		n=$((n + 1))
	done
	[ "$n" -ge 8 ]
	n=0
	while IFS=$'\t' read -r key job_key; do
		grep -qx "\.It Cm $key No ($job_key)" "$man/paceline-solution.7"
		grep -qx "\.Li $key\( (.*\)\?,\?" "$man/trainctl.1"
		grep -q "^\.Li decision .* $key= " "$man/paceline-solution.7"
		grep -q "^\.Li .*\b$key=" "$man/paceline-job.5"
		grep -q "Cm ${job_key##* }\( .*\)\?$" "$man/paceline-job.5"
		grep -q "^#\(${job_key%% *}=\|   ${job_key##* } \)" keys
		n=$((n + 1))
	done < <(awk -F '  +' -v OFS='\t' '/^KEYs/ { on = 1; next } on { print $2, $3 }' help)
	[ "$n" -ge 6 ]
}

@test "a bad snapshot: exit 65, the line named; bad options: 64" {
	for bad in 's/size=80/size=many/' 's/state=up/state=dancing/' 's/speed-long=1200/speed-long=-1/' \
		's/up=700/up=700 max=x/' 's/up=700/up=700 accum=-1/' 's/up=700/up=700 speed-last=nan/'; do
		run trainctl solve pace < <(six 1200 1200 1200 1200 1200 1200 | sed "3$bad")
		[ "$status" -eq 65 ]
		[[ $output == *stdin:3* ]]
	done
	run trainctl solve antdt-nd < <(six 1200 1200 1200 1200 1200 1200 | sed 3d)
	[ "$status" -eq 65 ]
	[[ $output == *"job (line 1) says workers=6"* ]]
	run trainctl solve antdt-nd < <(six 1200 1200 1200 1200 1200 1200 | head -c -1)
	[ "$status" -eq 65 ]
	run trainctl solve antdt-nd < <(six 1200 1200 1200 1200 1200 1200 | sed '5s/id=w3/id=w1/')
	[ "$status" -eq 65 ]
	[[ $output == *"id=w1 appears twice (line 5)"* ]]
	run trainctl solve antdt-nd </dev/null
	[ "$status" -eq 65 ]
	[[ $output == *"no job record"* ]]
	for option in sync=x limit=-1 cmax=0 lambda=0.5 number=1; do
		run trainctl solve antdt-nd -o $option </dev/null
		[ "$status" -eq 64 ]
		[[ $output == *${option%%=*}* ]]
	done
}

@test "solutions of one's own: three lines of awk" {
	six 1200 1200 1200 1200 600 240 >slow
	run trainctl solve "$PACELINE_ROOT/scripts/examples/slowest-first.awk" < <(PS0=2.5 six 1200 1200 1200 1200 1200 1200)
	[ "$status" -eq 0 ]
	[ "$output" = "action kind=kill-restart role=server id=ps0 reason=ratio-2.5" ]
	run trainctl solve "$PACELINE_ROOT/scripts/examples/slowest-first.awk" <slow
	[ "$output" = "action kind=none reason=nobody-is-slow" ]
	run trainctl solve "$PACELINE_ROOT/scripts/examples/pace.awk" -o batch=480 <slow
	[ "$status" -eq 0 ]
	[ "$(plrec tsv size <<<"$output" | awk '{ n += $1 } END { print n }')" = 480 ]
	run -0 trainctl solve "$PACELINE_ROOT/scripts/examples/pace.awk" -o batch=480 -o least=33 <slow
	[ "$(plrec tsv size <<<"$output" | awk 'NR == 1 || $1 < least { least = $1 } { n += $1 } END { print n, least }')" = "480 33" ]
}

@test "replay: what a lead decided at its barriers; a log that is wrong is told with its place" {
	cat >log <<-'END'
		balancing method=lb-bsp batch=100 at=5
		balance iteration=0 time-us=7 sizes=w0:50,w1:50 speeds= times=
		balance iteration=1 time-us=7 sizes=w0:75,w1:25 speeds=300,100 times=0.1,0.1
		balance iteration=2 sizes=w0:1 speeds=100
		balance iteration=2 from=1 sizes=w1:1,w2:1 speeds=,300 times=0.1, counts=20, mosts=,30
		balance iteration=2 sizes=w1:1
		balancing method=lb-bsp-gpu batch=40
		balance iteration=9 sizes=w0:20,w1:20 times=1,2 had=10,30
		job this=is passed=over
	END
	run -0 trainctl solve --log log
	[ "$output" = "balancing method=lb-bsp batch=100
balance iteration=0 sizes=w0:50,w1:50
balance iteration=1 sizes=w0:75,w1:25
balance iteration=2 sizes=w0:23
balance iteration=2 from=1 sizes=w1:47,w2:30
balance iteration=2 sizes=w1:100
balancing method=lb-bsp-gpu batch=40
balance iteration=9 sizes=w0:10,w1:30" ]
	run -0 trainctl solve --log - lb-bsp <log
	[ "$(tail -n 1 <<<"$output")" = "balance iteration=9 sizes=w0:20,w1:20" ]
	run -64 trainctl solve --log log pace
	[[ $output == *pace*lb-bsp* ]]
	while IFS='|' read -r line say; do
		{ head -n 3 log; printf '%s\n' "$line"; } >bad
		run -65 trainctl solve --log bad
		[[ $output == *"bad:4: $say"* ]]
	done <<-'END'
		balance iteration=x sizes=w0:1|iteration=
		balance iteration=7|balance: sizes=
		balance iteration=7 sizes=w0|sizes=: 'w0'
		balance iteration=7 sizes=w0:1,w%201:1|sizes=: 'w 1:1'
		balance iteration=7 sizes=w0:1 speeds=nan|speeds=: 'nan'
		balance iteration=7 sizes=w0:1 times=-1|times=: '-1'
		balance iteration=7 sizes=w0:1 mems=1,2|mems=: longer
		balance iteration=1 from=1 sizes=w2:1|from=:
		balance iteration=2 from=2 sizes=w2:1|from=:
		balancing method=guess batch=1|method=: 'guess'
		balancing method=lb-bsp batch=0|batch=
		balancing method=lb-bsp batch=9 least=0|least=
	END
	tail -n +2 log >bad
	run -65 trainctl solve --log bad
	[[ $output == *"bad:2: "*"no balancing"* ]]
	# what the workers' memory does not hold, and more workers than samples
	for method in lb-bsp lb-bsp-gpu; do
		printf 'balancing method=%s batch=9\n' $method >small
		printf 'balance iteration=%d sizes=w0:3,w1:6 times=1,2 mosts=%s\n' 1 4,4 2 ,4 3 1,4 >>small
		run -0 trainctl solve --log small
		[ "$(sed -n 's/.* sizes=//p' <<<"$output" | tr '\n' ' ')" = "w0:4,w1:4 w0:5,w1:4 w0:1,w1:4 " ]
		printf 'balancing method=%s batch=2\nbalance iteration=1 sizes=w0:1,w1:1,w2:1 mosts=4\n' $method >small
		run -0 trainctl solve --log small
		[ "$(sed -n 's/.* sizes=//p' <<<"$output")" = "w0:1,w1:1,w2:1" ]
	done
	# the least of each, which is as large as memory allows
	for method in lb-bsp lb-bsp-gpu; do
		printf 'balancing method=%s batch=20 least=8 at=5\n' $method >small
		printf 'balance iteration=%d sizes=w0:10,w1:10 speeds=1,99 times=9,9 counts= mems= mosts=%s had=%s\n' \
			1 , 1,19 2 3, 1,19 >>small
		printf 'balance iteration=3 sizes=w0:8,w1:8,w2:8 times=9,1,1\n' >>small
		run -0 trainctl solve --log small
		[ "${lines[0]}" = "balancing method=$method batch=20 least=8" ]
		[ "$(sed -n 's/.* sizes=//p' <<<"$output" | tr '\n' ' ')" = "w0:8,w1:12 w0:3,w1:17 w0:8,w1:8,w2:8 " ]
	done
	# Its writer died, or is at it: what is whole is replayed. A pipe that breaks off is no log.
	head -c 150 log >bad
	run -0 trainctl solve --log bad
	[[ $output == *"trainctl: bad:3: the log ends in the middle of a line, which is left out"* ]]
	[[ $output == *"balance iteration=0 sizes=w0:50,w1:50"* ]]
	run -65 trainctl solve --log - <bad
	[[ $output == *":3: "*newline* ]]
}
