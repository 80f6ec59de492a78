# rooms: predict
load helper

# A small stream with loads: speeds fall with cpu, seeded.
stream() { # LINES WORKERS [SEED]
	awk -v n="$1" -v workers="$2" -v state="${3:-7}" '
		function u() { state = (state * 16807) % 2147483647; return state / 2147483647 }
		BEGIN { for (k = 0; k < n; k++) for (w = 0; w < workers; w++) {
			if (u() < 0.05) c[w] = u()
			printf "obs id=w%d k=%d cpu=%.3f mem=0.5 speed=%.3f\n", w, k, c[w],
				(100 + 50 * w) * (1 - 0.7 * c[w]) * (0.95 + 0.1 * u())
		} }'
}

@test "usage: help and version exit 0, mistakes 64" {
	run -0 speed-predict --help
	[[ $output == "usage: speed-predict "* ]]
	run -0 speed-predict --version
	run -64 speed-predict -m oracle </dev/null
	[[ $output == *"'oracle' is none of last|ema|"* ]]
	run -64 speed-predict more </dev/null
	run -64 speed-predict --alpha 0 </dev/null
	run -64 speed-predict --order 2,3,1 </dev/null
	run -64 speed-predict --order 0,1,0 </dev/null
	run -64 speed-predict --order 2,2 </dev/null
	run -64 speed-predict -m ema --loss max </dev/null
	[[ $output == *"max is for -m mix only"* ]]
}

@test "every model: one pred a line, the first one empty, a score at the end" {
	stream 60 2 >in
	for model in last ema quantile arima rnn lstm narx arx gam mix; do
		run -0 speed-predict -m $model --warmup 10 <in
		[ "${#lines[@]}" = 122 ]
		[[ ${lines[0]} == "pred id=w0 k=0 speed= actual="* ]]
		[[ ${lines[1]} == "pred id=w1 k=0 speed= actual="* ]]
		[[ ${lines[2]} == "pred id=w0 k=1 speed="[1-9]*" actual="* ]]
		[[ ${lines[121]} == "score id=w1 rmse="*" n=59" ]]
	done
}

@test "ema is the closed form" {
	stream 300 1 >in
	speed-predict -m ema --alpha 0.3 <in >out
	sed 's/.*speed=//' in | awk '{ v[NR] = $1 } END { for (k = 2; k <= NR; k++) {
		s = v[1] * 0.7 ^ (k - 2)
		for (j = 2; j < k; j++) s += 0.3 * 0.7 ^ (k - 1 - j) * v[j]
		printf "%.12g\n", s } }' >want
	grep ^pred out | tail -n +2 | sed 's/.*speed=//; s/ .*//' | paste - want |
		awk '{ d = $1 / $2 - 1 } d > 1e-8 || d < -1e-8 { exit 1 } END { exit NR != 299 }'
}

@test "a line's own speed has no part in its prediction; a line without one is predicted" {
	stream 80 1 >in
	for model in last ema quantile arima narx arx gam mix; do
		speed-predict -m $model --warmup 10 <in | sed -n 80p >all
		{ head -n 79 in; tail -n 1 in | sed 's/speed=.*/speed=1/'; } >other
		speed-predict -m $model --warmup 10 <other | sed -n 80p >slow
		{ head -n 79 in; tail -n 1 in | sed 's/ speed=.*//'; } >none
		speed-predict -m $model --warmup 10 <none | sed -n 80p >no
		[ "$(cut -d' ' -f1-4 all)" = "$(cut -d' ' -f1-4 slow)" ]
		[ "$(cut -d' ' -f1-4 all)" = "$(cat no)" ]
	done
}

@test "a score counts lines from --score-from on, and says nothing when there are none" {
	printf 'obs id=a k=%d speed=%d\n' 5 10 6 20 7 40 >in
	run -0 speed-predict -m last --score-from 7 <in
	[ "${lines[3]}" = "score id=a rmse=20 n=1" ]
	run -0 speed-predict -m last --score-from 8 <in
	[ "${lines[3]}" = "score id=a rmse= n=0" ]
	run -0 speed-predict -m last </dev/null
	[ -z "$output" ]
}

@test "narx sees what the load says, and only with the load" {
	stream 900 1 >in
	score() { awk '/^score/ { sub("rmse=", "", $3); print $3 }'; }
	narx=$(speed-predict -m narx --score-from 500 <in | score)
	ema=$(speed-predict -m ema --score-from 500 <in | score)
	blind=$(sed 's/cpu=.* speed/speed/' in | speed-predict -m narx --score-from 500 | score)
	echo "$narx $ema $blind"
	awk -v n="$narx" -v e="$ema" -v b="$blind" 'BEGIN { exit !(n < 0.6 * e && b > n && b < 1.1 * e) }'
}

@test "a saved model continues bit for bit" {
	stream 700 2 >in
	head -n 1101 in >first
	tail -n +1102 in >second
	for how in "-m ema" "-m arima --order aic" "-m rnn" "-m lstm" "-m narx" "-m arx" "-m gam" "-m mix --loss max" "-m mix"; do
		speed-predict $how <in | grep ^pred >whole
		speed-predict $how --save model <first | grep ^pred >parts
		speed-predict $how --seed 9 --load model --save again <second | grep ^pred >>parts
		cmp whole parts
		# And the file itself is the one of the uninterrupted run.
		speed-predict $how --save model <in >/dev/null
		cmp model again
	done
}

@test "a saved worker goes on if its next k comes; others begin anew with what was learnt" {
	stream 700 3 >in
	grep -v id=w2 in >all
	awk 'FNR <= 1000' all >first
	awk 'FNR > 1000 && /id=w1/' all >w1
	stream 200 1 99 >w0 # from k=0
	stream 200 1 55 | sed s/w0/new/ >new
	speed-predict -m narx --save model <first >/dev/null
	speed-predict -m narx <all | grep "^pred id=w1 k=[5-9]..[ ]" >whole
	# alone, and between others, whoever comes first
	speed-predict -m narx --load model <w0 | grep ^pred >anew
	speed-predict -m narx --load model <new | grep ^pred >learnt
	paste -d '\n' w1 w0 new >mixed
	for order in "w1 w0 new" "w0 new w1" "new w1 w0"; do
		read -r a b c <<<"$order"
		paste -d '\n' $a $b $c >mixed
		speed-predict -m narx --load model --save again <mixed >out
		grep '^pred id=w1' out | cmp whole -
		grep '^pred id=w0' out | cmp anew -
		grep '^pred id=new' out | cmp learnt - # from w0, whatever that one does meanwhile
		[ "$(sed -n 's/^score id=\([^ ]*\) .*/\1/p' out | tr '\n' ' ')" = "$order " ]
		# the others are saved as well, and all go on from there
		[ "$(sed -n 's/^worker id=\([^ ]*\) .*/\1/p' again | tr '\n' ' ')" = "w0 w1 new " ]
		grep -q '^worker id=w0 k=199$' again
		grep -q '^worker id=w1 k=699$' again
	done
	# no line: it stays
	speed-predict -m narx --load model --save again <w1 >out
	not grep -q '^score id=w0' out
	sed -n '/^worker id=w0/,/^worker/p' model | sed '$d' >before
	sed -n '/^worker id=w0/,/^worker/p' again | sed '$d' | cmp before -
	[ -s before ]
}

@test "mix: one that goes on beside one that begins anew; rounds of other numbers are rounds" {
	stream 300 3 >in
	head -n 600 in >first
	tail -n +601 in >second
	for how in both max; do
		speed-predict --loss $how --save model <first >/dev/null
		speed-predict --loss $how <in | grep ^pred >whole
		# w2 begins anew with the same speeds: the others hardly see it
		awk '/id=w2/ { sub(/k=[0-9]*/, "k=" n++) } { print }' second >mixed
		speed-predict --loss $how --load model <mixed | grep ^pred >out
		awk 'FNR == NR { split($4, f, "="); said[$2 $3] = f[2]; next }
			!/id=w2/ { split($4, f, "="); d = f[2] / said[$2 $3] - 1; n++; if (d * d > 0.01) bad++ }
			END { exit bad > n / 20 || n != 200 }' whole out
		# all anew: as good as the saved ones, from the tenth line on
		awk '{ sub(/k=[0-9]*/, "k=" int((NR - 1) / 3)) } { print }' second >anew
		speed-predict --loss $how --load model --save again <anew >out
		grep -q ' round=99$' again
		score() { awk '/^score/ { split($3, f, "="); sum += f[2] } END { print sum }' "$1"; }
		speed-predict --loss $how --load model --score-from 210 <second >on
		speed-predict --loss $how --load model --score-from 10 <anew >out
		speed-predict --loss $how --score-from 10 <anew >cold
		awk -v on="$(score on)" -v warm="$(score out)" -v cold="$(score cold)" \
			'BEGIN { print on, warm, cold; exit !(warm < 1.15 * on && warm < 0.7 * cold) }'
	done
}

@test "a saved model warms up another run, and another worker" {
	stream 700 1 >old
	stream 100 1 99 | sed 's/id=w0/id=new/' >in
	speed-predict -m narx --save model <old >/dev/null
	score() { awk '/^score/ { sub("rmse=", "", $3); print $3 }'; }
	cold=$(speed-predict -m narx --score-from 20 <in | score)
	warm=$(speed-predict -m narx --load model --score-from 20 <in | score)
	same=$(sed s/new/w0/ in | speed-predict -m narx --load model --score-from 20 | score)
	# The other worker is four times as fast.
	fast=$(awk '{ split($6, s, "="); print $1, $2, $3, $4, $5, "speed=" 4 * s[2] }' in |
		speed-predict -m narx --load model --score-from 20 | score)
	echo "$cold $warm $same $fast"
	awk -v c="$cold" -v w="$warm" -v s="$same" -v f="$fast" \
		'BEGIN { exit !(w < 0.7 * c && s == w && f < 4 * 0.8 * c) }'
}

# What iterations last when batches are cut by the predictions, over the oracle's, from round 50 on.
over_oracle() {
	awk '$1 == "pred" { for (i = 2; i <= NF; i++) { split($i, f, "="); v[f[1]] = f[2] }
			if (v["k"] < 50) next
			r = v["speed"] / v["actual"]; k = v["k"]
			if (r > late[k]) late[k] = r
			said[k] += v["speed"]; real[k] += v["actual"] }
		END { for (k in late) { sum += late[k] / said[k] * real[k]; n++ }
			printf "%.4f\n", sum / n }'
}

@test "--loss max makes iterations short, rmse makes errors small, both does both" {
	# Noise that differs between workers; one stands out. No load to see.
	awk -v state=5 '
		function u() { state = (state * 16807) % 2147483647; return state / 2147483647 }
		BEGIN { for (k = 0; k < 400; k++) for (w = 0; w < 6; w++)
			printf "obs id=w%d k=%d speed=%.3f\n", w, k,
				(w == 5 ? 400 : 50 + 10 * w) * (1 - (w % 3) * 0.15 * u()) }' >in
	speed-predict -m mix --loss rmse <in >single
	speed-predict -m mix --loss max <in >max
	speed-predict -m mix <in >both
	for how in single both max; do
		echo "$how $(over_oracle <$how) $(awk '/^score/ { split($3, f, "="); sum += f[2] }
			END { print sum }' $how)"
	done | tee all
	awk '{ cost[$1] = $2 - 1; error[$1] = $3 } END { exit !(cost["max"] < 0.9 * cost["single"] &&
		cost["both"] < 0.97 * cost["single"] && cost["max"] < cost["both"] &&
		error["single"] < error["max"] && error["both"] < 1.03 * error["single"]) }' all
}

@test "mix: lines of workers apart, workers that come late, lines without speed" {
	stream 30 2 | sort -s -t' ' -k2,2 >in
	run -0 speed-predict <in
	[ "${#lines[@]}" = 62 ]
	{ stream 10 1; printf 'obs id=late k=%d%s\n' 9 '' 10 ' speed=3' 11 '' 12 ' speed=4'; } >in
	run -0 speed-predict -m mix --loss max <in
	[ "${lines[10]}" = "pred id=late k=9 speed=" ]
	[ "${lines[11]}" = "pred id=late k=10 speed= actual=3" ]
	[ "${lines[12]}" = "pred id=late k=11 speed=3" ]
	run -0 speed-predict <in
	[ "${lines[12]}" = "pred id=late k=11 speed=3" ]
}

@test "the same seed gives the same output, another one another" {
	stream 700 1 >in
	speed-predict -m narx <in >a
	speed-predict -m narx <in >b
	speed-predict -m narx --seed 2 <in >c
	cmp a b
	not cmp -s a c
}

@test "bad input: 65 with the line number, what came before is answered" {
	bad() {
		printf 'obs id=ok k=3 speed=1\n\n%s\n' "$1" >in
		run -65 --separate-stderr speed-predict -m ema <in
		[ "$output" = "pred id=ok k=3 speed= actual=1" ]
		[[ $stderr == "speed-predict: stdin:3: "*"$2"* ]] || { echo "$1: $stderr"; false; }
	}
	bad 'obs k=1' 'id= is missing'
	bad 'obs id=a' 'k= is missing'
	bad 'obs id=a k=1.5' 'k='
	bad 'obs id=a k=-1' 'k='
	bad 'obs id=a k=1 speed=nan' "'nan' is not a number"
	bad 'obs id=a k=1 speed=inf' "'inf' is not a number"
	bad 'obs id=a k=1 speed=0' 'speed='
	bad 'obs id=a k=1 speed=-3' 'speed='
	bad 'obs id=a k=1 speed=1e300' 'speed='
	bad 'obs id=a k=1 cpu=1.01' 'cpu='
	bad 'obs id=a k=1 mem=nan' 'mem='
	bad 'obs id=ok k=5' 'k=5 of id=ok after k=3: lines are missing'
	bad 'obs id=ok k=3' 'k=3 of id=ok after k=3: k goes back'
	bad 'obs id=a%2Fb k=1' 'is no id'
	bad 'obs  id=a k=1' 'byte'
	bad $'\x01\x02garbage' ''
}

@test "garbage of any kind ends with 65 or 0, never otherwise" {
	stream 12 1 >good
	for seed in $(seq 40); do
		awk -v state="$seed" '
			function u() { state = (state * 16807) % 2147483647; return state / 2147483647 }
			BEGIN { for (i = 0; i < 9; i++) u() }
			{ for (n = int(3 * u()); n > 0; n--) { i = 1 + int(u() * length($0))
				$0 = substr($0, 1, i - 1) sprintf("%c", 1 + int(u() * 126)) substr($0, i + 1) }
			  print }' good >bad
		for model in last narx mix; do
			speed-predict -m $model <bad >out 2>err || [ $? = 65 ]
		done
	done
}

@test "what a message quotes can't speak to the terminal" {
	run -65 speed-predict <<<'obs id=%1b[2J%0a k=0'
	[ "$output" = "speed-predict: stdin:1: id=: '?[2J?' is no id (1 to 64 of letters, digits, . _ -)" ]
	echo garbage >$'no\nmodel'
	run -65 speed-predict --load $'no\nmodel' <<<'obs id=a k=0'
	[ "$output" = "speed-predict: no?model:1: this is no model file of speed-predict" ]
}

@test "input that ends in mid-line is refused" {
	printf 'obs id=a k=0 speed=1\nobs id=a k=1 speed=1' >in
	run -65 --separate-stderr speed-predict -m ema <in
	[[ $stderr == *"stdin:2: the input ends without a newline"* ]]
}

@test "unknown types are passed over with one warning a type, or refused" {
	printf 'note a=1\nobs id=a k=0 speed=1 color=red\nnote a=2\n' >in
	run -0 --separate-stderr speed-predict -m last <in
	[ "${lines[0]}" = "pred id=a k=0 speed= actual=1" ]
	[ "${#stderr_lines[@]}" -eq 1 ]
	run -65 --separate-stderr speed-predict --strict <in
	[[ $stderr == *"stdin:1: unknown record type 'note'"* ]]
}

@test "a model file that is cut off, damaged, or of another kind is refused with its line" {
	stream 150 2 >in
	speed-predict -m narx --warmup 50 --save model <in >/dev/null
	lines=$(wc -l <model)
	for n in 1 2 3 50 $((lines - 1)); do
		head -n "$n" model >cut
		run -65 --separate-stderr speed-predict -m narx --load cut --save none <in
		[[ $stderr == "speed-predict: cut:"*"mid-model"* ]] || { echo "$n: $stderr"; false; }
		[ -z "$output" ]
		[ ! -e none ]
	done
	head -c 5000 model >cut
	run -65 speed-predict -m narx --load cut <in
	[[ $output == *"cut:"*"without a newline"* ]]
	: >cut
	run -65 speed-predict -m narx --load cut <in
	[[ $output == *"cut:"* ]]
	run -65 speed-predict -m lstm --load model <in
	[[ $output == *"model:1: "*"kind narx"*"not of lstm"* ]]
	sed '4s/v=.*/v=garbage/; 5s/v=[^,]*/v=garbage/' model >cut
	run -65 speed-predict -m narx --load cut <in
	[[ $output == *"cut:4: "*"garbage"* ]]
	sed '5s/v=[^,]*/v=garbage/' model >cut
	run -65 speed-predict -m narx --load cut <in
	[[ $output == *"cut:5: v=: number 1 is 'garbage'"* ]]
	sed '5s/,[^,]*$//' model >cut
	run -65 speed-predict -m narx --load cut <in
	[[ $output == *"cut:5: v=: not 128 numbers"* ]]
	sed 's/name=rate/name=late/' model >cut
	run -65 speed-predict -m narx --load cut <in
	[[ $output == *"values of rate expected, these are of 'late'"* ]]
	printf 'obs id=a k=1\n' >cut
	run -65 speed-predict -m narx --load cut <in
	[[ $output == *"cut:1: this is no model file of speed-predict"* ]]
	cat model model >cut
	run -65 speed-predict -m narx --load cut <in
	[[ $output == *"cut:$(($(wc -l <model) + 1)): "*"behind its end"* ]]
	run -66 speed-predict -m narx --load missing <in
}

@test "a model file of which any byte changed is not loaded" {
	for k in 0 1 2 3; do printf 'obs id=%s k=%d speed=%d.7\n' a $k 10$k b $k 20$k; done >in
	for how in '-m ema' '-m mix --loss max'; do
		speed-predict $how --save model <in >out
		size=$(stat -c %s model)
		step=$((size / 40 + 1))
		for ((at = 0; at < size; at += step)); do
			cp model flipped
			flip flipped $at
			not cmp -s model flipped
			run -65 speed-predict $how --load flipped <in
		done
	done
	speed-predict -m ema --save model <in >out
	sed 's/v=10\([0-9]\)/v=11\1/' model >flipped
	run -65 speed-predict -m ema --load flipped <in
	[[ $output == *"flipped:$(wc -l <model): "*"checksum"* ]]
}

@test "a model file that can't be written is an error, the old one stays" {
	printf 'obs id=a k=0 speed=1\n' >in
	run -73 speed-predict -m ema --save /dev/full <in
	run -64 speed-predict -m ema --save '' <in
	[ "${#lines[@]}" -le 2 ] # before any work
	speed-predict -m ema --save model <in
	cp model before
	printf 'obs id=a k=1 speed=bad\n' >in
	run -65 speed-predict -m ema --load model --save model <in
	cmp model before
	speed-predict -m ema --load model --save model </dev/null
	cmp model before
}

@test "output that can't be written is an error" {
	printf 'obs id=a k=0 speed=1\n' >in
	run -74 bash -c 'speed-predict -m ema <in >/dev/full'
}

@test "each line is answered before the next is waited for" {
	mkfifo in out
	start filter bash -c 'speed-predict -m last <in >out'
	exec 5>in 6<out
	echo 'obs id=a k=0 speed=7' >&5
	IFS= read -r -t 300 line <&6
	[ "$line" = "pred id=a k=0 speed= actual=7" ]
	echo 'obs id=a k=1' >&5
	IFS= read -r -t 300 line <&6
	[ "$line" = "pred id=a k=1 speed=7" ]
	exec 5>&-
	IFS= read -r -t 300 line <&6
	[[ $line == "score id=a "* ]]
	exec 6<&-
}
