# rooms: record
load helper

@test "usage: help and version exit 0, mistakes 64" {
	run -0 plrec --help
	[[ $output == "usage: plrec "* ]]
	run -0 plrec json --help
	run -0 plrec --version
	run -64 plrec </dev/null
	run -64 plrec sing </dev/null
	[[ $output == *"unknown command 'sing'"* ]]
	run -64 plrec tsv </dev/null
	run -64 plrec tsv Id </dev/null
	[[ $output == *"'Id' is no key"* ]]
	run -64 plrec where </dev/null
	run -64 plrec where id </dev/null
	run -64 plrec where 'id!3' </dev/null
	run -64 plrec where 'id>x' </dev/null
	[[ $output == *"'x' is not a number"* ]]
	run -64 plrec from-tsv </dev/null
	run -64 plrec from-json type </dev/null
	run -64 plrec json --sing </dev/null
}

@test "tsv: header, text, missing and strange values" {
	printf 'a b=%%09%%0a\\ c=\td\te\n\nx type-of=y b=1\n' >in
	run -0 plrec tsv -H type b c <in
	[ "$output" = $'type\tb\tc\na\t\\t\\n\\\\\t\nx\t1\t-' ]
	run -0 plrec -t tsv type c <in
	[ "$output" = $'a\t\td\\te\nx\t-\t-' ]
}

@test "json: numbers, strings, escapes" {
	run -0 plrec json <<<'n a=0 b=-1.5e3 c=007 d=.5 e=5. f=1e400 g= h=- i=0x1 j=+1 k=1e'
	[ "$output" = '{"type":"n","a":0,"b":-1.5e3,"c":"007","d":".5","e":"5.","f":"1e400","g":"","h":"-","i":"0x1","j":"+1","k":"1e"}' ]
	run -0 plrec json <<<'n a=9007199254740991 b=9007199254740993 c=18446744073709551615 d=-9007199254740992'
	[ "$output" = '{"type":"n","a":9007199254740991,"b":"9007199254740993","c":"18446744073709551615","d":"-9007199254740992"}' ]
	run -0 plrec json <<<'n a=%22\%01 b=ä%e4%e2%82 c=%ed%a0%80'
	[ "$output" = '{"type":"n","a":"\"\\\u0001","b":"ä��","c":"���"}' ] ||
		[ "$output" = '{"type":"n","a":"\"\\\u0001","b":"ä���","c":"���"}' ]
	run -0 plrec json a type z <<<'n z=1 a=2'
	[ "$output" = '{"a":2,"type":"n","z":1}' ]
	run -0 plrec json b <<<'n a=2'
	[ "$output" = '{"b":null}' ]
	run -0 plrec json -t <<<$'n a=1\twhy "so"\there'
	[ "$output" = '{"type":"n","a":1,"text":"why \"so\"\u0009here"}' ]
	run -65 plrec json <<<'n type=1'
	[[ $output == *stdin:1* ]]
}

@test "json is JSON for other programs, and comes back" {
	printf 'n a=%%22%%5c%%2f%%01%%7f b=\303\244 c=0.25 d=18446744073709551615 e=x%%20y\nm\n' >in
	plrec json <in >json
	if command -v python3 >/dev/null; then
		python3 -c 'import json
for line in open("json"): json.loads(line)'
	fi
	plrec from-json <json >back
	# Encodings may differ, meaning must not.
	diff <(plrec json <back) json
}

@test "where: conditions, text" {
	printf 'a n=1\tone\nb n=2\na n=x\nb m=2\n' >in
	run -0 plrec where 'n>=1' 'n<2' <in
	[ "$output" = 'a n=1' ]
	run -0 plrec -t where n=1 <in
	[ "$output" = $'a n=1\tone' ]
	run -0 plrec where 'n!=1' <in
	[ "$output" = $'b n=2\na n=x\nb m=2' ]
	run -0 plrec where type=b 'n<=2' 'n>1' <in
	[ "$output" = 'b n=2' ]
	run -0 plrec where n=nobody <in
	[ -z "$output" ]
	run -0 plrec where 'v=a b=c' <<<'r v=a%20b=c'
	[ "$output" = 'r v=a%20b=c' ]
}

@test "from-tsv: keys, escapes, wrong widths" {
	printf 'x\\ty\ta b\t-\n\t1\\\\\t2\n' >in
	run -0 plrec from-tsv r one two three <in
	[ "$output" = $'r one=x%09y two=a%20b\nr one= two=1\\ three=2' ]
	printf 'a\tb\n1\n' >in
	run -65 plrec from-tsv r <in
	[[ $output == *"stdin:2: fewer than 2 columns"* ]]
	printf '1\t2\n1\t2\t3\n' >in
	run -65 plrec from-tsv r a b <in
	[[ $output == *"stdin:2: more than 2 columns"* ]]
	printf 'Age\tb\n' >in
	run -65 plrec from-tsv r <in
	[[ $output == *"stdin:1: 'Age' is no key"* ]]
	printf '1\t2\n3\t4' >in
	run -65 plrec from-tsv r a b <in
	[[ $output == *"stdin:2: the input ends without a newline"* ]]
	{ head -c 5000 /dev/zero | tr '\0' x; echo; } >in
	run -65 plrec from-tsv r a <in
	[[ $output == *"stdin:1: does not fit"* ]]
	run -0 plrec from-tsv r a b </dev/null
}

@test "from-json: kinds of values, mistakes" {
	printf '{"type":"r","a":"x y","b":true,"c":null,"d":-3,"e":0.310,"f":""}\n\n{"type":"r"}' >in
	run -0 plrec from-json <in
	[ "$output" = $'r a=x%20y b=1 d=-3 e=0.31 f=\nr' ]
	run -0 plrec from-json -t <<<'{"type":"r","text":"hello"}'
	[ "$output" = $'r\thello' ]
	run -65 plrec from-json <<<'{"a":1}'
	[[ $output == *'stdin:1: no member "type"'* ]]
	run -65 plrec from-json <<<'{"type":"r","a":[1]}'
	[[ $output == *"stdin:1: member 'a' is an array or object"* ]]
	run -65 plrec from-json <<<'{"type":"r","A":1}'
	run -65 plrec from-json <<<'{"type":"r","a":1,"a":2}'
	run -65 plrec from-json <<<'{"type":"r","a":"\u0000"}'
	run -65 plrec from-json <<<'[1]'
	printf '{"type":"r"}\n{"type"' >in
	run -65 plrec from-json <in
	[ "${lines[0]}" = r ]
	[[ $output == *"stdin:2: column"* ]]
}

@test "bad records name their line, what is before them is written" {
	printf 'a b=1\nA\n' >in
	run -65 plrec tsv b <in
	[ "${lines[0]}" = 1 ]
	[[ $output == *"stdin:2: "* ]]
	printf 'a b=1\na b=' >in
	run -65 plrec json <in
	[ "${lines[0]}" = '{"type":"a","b":1}' ]
	[[ $output == *"stdin:2: the input ends without a newline"* ]]
	printf 'a b=1 b=2\n' >in
	run -65 plrec where b=1 <in
	head -c 100000 /dev/urandom >in
	run -65 plrec json <in
	run -65 plrec from-json <in
}

@test "a line comes out before the next one is waited for" {
	local command
	for command in 'tsv b' 'json' 'where b>0' 'from-tsv t b' 'from-json -T t'; do
		rm -f pipe plrec.out && mkfifo pipe
		exec 9<>pipe
		start plrec sh -c 'exec "$@" <pipe' sh plrec $command 9>&-
		case $command in
		from-tsv*) echo 1 >&9 ;;
		from-json*) echo '{"b":1}' >&9 ;;
		*) echo 'a b=1' >&9 ;;
		esac
		wait_for '[ -s plrec.out ]'
		exec 9>&-
		wait "$PID"
	done
}

@test "a full disk is an I/O error, a reader that leaves is no message" {
	[ -e /dev/full ] || skip "no /dev/full here"
	yes 'a b=1' | head -100000 >in
	run -74 sh -c 'plrec json <in >/dev/full'
	[[ $output == *"No space left"* ]]
	run -0 bash -c 'plrec json <in 2>err | head -1; [ ! -s err ]'
}

@test "no key twice in what is written, and a type that is none is bad usage" {
	printf 'a\ta\n1\t2\n' >in
	run -65 plrec from-tsv t <in
	[ "$output" = "plrec: stdin:1: column 'a' appears twice" ]
	run -64 plrec from-tsv t a b a <in
	[[ $output == *"a: appears twice"* ]]
	run -0 plrec from-tsv a a <<<1
	[ "$output" = "a a=1" ]
	run -64 plrec from-json -T 'X y' </dev/null
}
