load helper

@test "usage: help and version exit 0, mistakes 64" {
	run -0 bs-solve --help
	[[ $output == "usage: bs-solve "* ]]
	run -0 bs-solve --version
	run -64 bs-solve </dev/null
	[[ $output == *"global batch is missing"* ]]
	run -64 bs-solve -B 0 </dev/null
	run -64 bs-solve -B 10 -m fastest </dev/null
	[[ $output == *"'fastest' is none of even|share"* ]]
	run -64 bs-solve -B 10 more </dev/null
}

@test "the examples of the man page" {
	printf 'worker id=%s speed=%s\n' w0 200 w1 100 >in
	run -0 bs-solve -B 96 <in
	[ "$output" = "batch id=w0 size=64 accum=1 time=0.32
batch id=w1 size=32 accum=1 time=0.32
plan time=0.32 total=96 method=share" ]
	printf 'worker id=fast speed=100 count=4\nworker id=slow speed=50 fixed=0.1\n' >in
	run -0 bs-solve -B 91 <in
	[ "$output" = "batch id=fast size=21 larger=2 accum=1 time=0.22
batch id=slow size=5 accum=1 time=0.2
plan time=0.22 total=91 method=share" ]
}

@test "share keeps to min and max and gives ties to the first" {
	printf 'worker id=a speed=1 max=3\nworker id=b speed=100 min=0\nworker id=c speed=1 min=2\n' >in
	run -0 bs-solve -B 9 -m share <in
	[ "${lines[0]}" = "batch id=a size=1 accum=1 time=1" ]
	[ "${lines[1]}" = "batch id=b size=6 accum=1 time=0.06" ]
	[ "${lines[2]}" = "batch id=c size=2 accum=1 time=2" ]
	printf 'worker id=w%d speed=5\n' 2 0 1 >in
	run -0 bs-solve -B 7 <in
	[ "${lines[0]}" = "batch id=w2 size=3 accum=1 time=0.6" ]
	[ "${lines[2]}" = "batch id=w1 size=2 accum=1 time=0.4" ]
}

@test "among equal largest times the next largest is the smallest" {
	# Both a and b end at 2 s with one sample more; b was the slower one without it.
	printf 'worker id=a speed=1\nworker id=b speed=10 fixed=1.6\n' >in
	run -0 bs-solve -B 5 <in
	[ "${lines[0]}" = "batch id=a size=1 accum=1 time=1" ]
	[ "${lines[1]}" = "batch id=b size=4 accum=1 time=2" ]
}

@test "a worker may get nothing when its min allows it" {
	printf 'worker id=a speed=1 fixed=5 min=0\nworker id=b speed=100\n' >in
	run -0 bs-solve -B 100 <in
	[ "${lines[0]}" = "batch id=a size=0 accum=1 time=5" ]
	[ "${lines[1]}" = "batch id=b size=100 accum=1 time=1" ]
}

@test "even ignores speed and names the worker whose bound breaks" {
	printf 'worker id=a speed=1\nworker id=b speed=900\nworker id=c speed=3\n' >in
	run -0 bs-solve -B 8 -m even <in
	[ "${lines[0]}" = "batch id=a size=3 accum=1 time=3" ]
	[ "${lines[2]}" = "batch id=c size=2 accum=1 time=0.666666667" ]
	[ "${lines[3]}" = "plan time=3 total=8 method=even" ]
	printf 'worker id=d speed=1 max=1\n' >>in
	run -65 bs-solve -B 8 -m even <in
	[[ $output == *"worker id=d: even size 2 is above max 1"* ]]
}

@test "what can't be met: 65 and which bound; nothing on stdout" {
	printf 'worker id=a speed=1 min=6\nworker id=b speed=1 min=5\n' >in
	run -65 --separate-stderr bs-solve -B 10 <in
	[ -z "$output" ]
	[[ $stderr == *"sum of min, 11, is above the global batch 10"* ]]
	printf 'worker id=a speed=1 max=6\nworker id=b speed=1 max=3\n' >in
	run -65 --separate-stderr bs-solve -B 10 <in
	[[ $stderr == *"sum of max, 9, is below the global batch 10"* ]]
	run -65 bs-solve -B 10 </dev/null
	[[ $output == *"no worker"* ]]
}

@test "bad input: 65 with the line number" {
	bad() {
		printf 'worker id=ok speed=1\n\n%s\n' "$1" >in
		run -65 --separate-stderr bs-solve -B 10 <in
		[ -z "$output" ]
		[[ $stderr == "bs-solve: stdin:3: "*"$2"* ]] || { echo "$1: $stderr"; false; }
	}
	bad 'worker id=a' 'speed= is missing'
	bad 'worker speed=1' 'id= is missing'
	bad 'worker id=a speed=0' "speed=: 0"
	bad 'worker id=a speed=-1' 'speed=: -1'
	bad 'worker id=a speed=nan' "'nan' is not a number"
	bad 'worker id=a speed=inf' "'inf' is not a number"
	bad 'worker id=a speed=1e999' 'not a number'
	bad 'worker id=a speed=' 'speed='
	bad 'worker id=a speed=1 min=1.5' 'min='
	bad 'worker id=a speed=1 min=-1' 'min='
	bad 'worker id=a speed=1 max=99999999999999999999' 'max='
	bad 'worker id=a speed=1 min=5 max=4' 'min=5 is above max=4'
	bad 'worker id=a speed=1 fixed=-0.5' 'fixed='
	bad 'worker id=a speed=1 count=0' 'count='
	bad 'worker id=a speed=1 cmin=2' 'cmin=2'
	bad 'worker id=a speed=1 mem=1.01' 'mem='
	bad 'worker id=ok speed=2' 'worker id=ok stands twice'
	bad 'worker id=a%2Fb speed=2' 'is no id'
	bad 'worker id=a speed=1 speed=2' "key 'speed' stands twice"
	bad 'worker  id=a speed=1' 'byte'
}

@test "input that ends in mid-line is refused, whole as the number may look" {
	printf 'worker id=a speed=1\nworker id=b speed=1' >in
	run -65 bs-solve -B 10 <in
	[[ $output == *"stdin:2: the input ends without a newline"* ]]
}

@test "unknown types are passed over with one warning a type, or refused" {
	printf 'note a=1\nworker id=a speed=1 color=red\nnote a=2\nmemo\n' >in
	run -0 --separate-stderr bs-solve -B 10 <in
	[ "${lines[0]}" = "batch id=a size=10 accum=1 time=10" ]
	[ "${#stderr_lines[@]}" -eq 2 ]
	run -65 --separate-stderr bs-solve -B 10 --strict <in
	[[ $stderr == *"stdin:1: unknown record type 'note'"* ]]
}

@test "output that can't be written is an error" {
	printf 'worker id=a speed=1\n' >in
	run -74 bash -c 'bs-solve -B 10 <in >/dev/full'
}

@test "a thousand workers: the sum is met and nobody can be made faster" {
	awk 'BEGIN { srand(7); for (i = 0; i < 1000; i++)
		printf "worker id=w%d speed=%.3f fixed=%.4f\n", i, 10 + rand() * 990, rand() / 10 }' >in
	bs-solve -B 81920 <in >out
	# Optimal: whoever took one sample more would be slower than the plan.
	paste -d' ' in out | awk '
		{ for (i = 1; i <= NF; i++) { split($i, f, "="); v[f[1]] = f[2] } }
		$1 == "worker" { sum += v["size"]; n++
			t = v["fixed"] + v["size"] / v["speed"]
			u = v["fixed"] + (v["size"] + 1) / v["speed"]
			if (t > top) top = t
			if (low == 0 || u < low) low = u }
		END { exit !(n == 1000 && sum == 81920 && low >= top * (1 - 1e-9)) }'
}
