#!/usr/bin/env bats
load helper

# Every pair of a positive and a negative, one by one.
pairs() {
	awk '{ s[NR] = $1; l[NR] = $2; w[NR] = NF > 2 ? $3 : 1 }
	END {
		for (i = 1; i <= NR; i++) if (l[i] == 1)
			for (j = 1; j <= NR; j++) if (l[j] == 0) {
				n += w[i] * w[j]
				if (s[i] > s[j]) win += w[i] * w[j]
				else if (s[i] == s[j]) win += w[i] * w[j] / 2
			}
		printf "%.9g\n", win / n
	}'
}

# near A B: equal to eight digits.
near() {
	awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; exit !(d < 1e-8 && d > -1e-8) }'
}

@test "auc: every pair counted, with and without ties and weights" {
	for seed in 1 2 3 4 5 6; do
		awk -v seed=$seed 'BEGIN {
			srand(seed); steps = seed % 2 ? 7 : 100000
			for (i = 0; i < 300; i++) {
				s = int(rand() * steps) / steps
				line = s " " (rand() < s)
				if (seed > 3) line = line "\t" int(rand() * 5)
				print line
			}
		}' >rows
		near "$(auc <rows | field auc)" "$(pairs <rows)"
	done
}

@test "log loss is clipped, accuracy is taken at 0.5" {
	run -0 auc < <(printf '1 0\n1 1\n0 0\n0.5 1\n')
	near "$(echo "$output" | field logloss)" "$(awk 'BEGIN { printf "%.12g", -(log(1e-15) + log(0.5)) / 4 }')"
	[ "$(echo "$output" | field accuracy)" = 0.75 ]
}

@test "a weight of n is n lines" {
	printf '0.3 1 3\n0.6 0 2\n0.2 0 1\n0.7 1 0\n' | auc | sed 's/ n=.*//' >weighted
	printf '0.3 1\n0.3 1\n0.3 1\n0.6 0\n0.6 0\n0.2 0\n' | auc | sed 's/ n=.*//' >repeated
	cmp weighted repeated
	run -0 auc < <(printf '0.3 1 0\n0.6 0 0\n')
	[ "$output" = "auc auc= logloss= accuracy= n=2" ]
}

@test "a row without label counts nowhere, and is told" {
	run -0 --separate-stderr auc < <(printf '0.9 1\n0.7 -\n0.4 0\n0.4 1\n0.1 0\n0.2 - \n')
	[ "$output" = "auc auc=0.875 logloss=0.409459347 accuracy=0.75 n=4" ]
	[ "$stderr" = "auc: stdin: 2 of 6 rows have no label and are ignored" ]
	run -65 auc < <(printf '0.9 -\n0.7 -\n')
	[[ "$output" == "auc: stdin: no row has a label, so there is nothing to compare scores with: "* ]]
	run -65 auc < <(printf '0.9 -\n0.7 2\n')
	[[ "$output" == "auc: stdin:2: the label is neither 0 nor 1"* ]]
	run -65 auc < <(printf '0.9 -1\n')
}

@test "one label only: no auc" {
	run -0 auc < <(printf '0.3 1\n0.6 1\n')
	[ "$(echo "$output" | field auc)" = "" ]
	[ "$(echo "$output" | field n)" = 2 ]
}

@test "bad lines are refused with their number" {
	while read -r line; do
		printf '0.5 1\n%b\n0.5 0\n' "$line" >bad
		run -65 auc bad
		[[ "$output" == "auc: bad:2: "* ]]
	done <<-'END'
		0.5
		0.5 2
		0.5 - 1 1
		0.5 --
		1.5 1
		-0.1 1
		nan 1
		x 1
		0.5 1 -1
		0.5 1 x
		0.5 1 1 1
		0.5\\0 1
	END
	run -65 auc < <(printf '0.5 1\n\n0.5 0\n')
	[[ "$output" == "auc: stdin:2: "*empty* ]]
}

@test "an input that ends in mid-line is refused" {
	run -65 auc < <(printf '0.5 1\n0.5 0')
	[[ "$output" == "auc: stdin:2: "*newline* ]]
}

@test "no input" {
	run -65 timeout 300 auc </dev/zero
	[[ $output == *"stdin:1: the line is longer than"* ]]
	run -65 auc </dev/null
	[[ "$output" == *"no rows"* ]]
	run -66 auc missing
	run -64 auc a b
	run -64 auc --what
	run -0 auc --help
	[[ "$output" == usage:* ]]
	run -0 auc --version
}

@test "output that can't be written is an error" {
	[ -w /dev/full ] || skip "no /dev/full"
	status=0
	printf '0.5 1\n' | auc >/dev/full 2>err || status=$?
	[ "$status" = 74 ]
	grep -q 'standard output' err
}

@test "weights may be as large or small as a double" {
	local w
	for w in 1e308 1e-320; do
		run -0 auc < <(printf "0.5 1 $w\n0.4 0 $w\n0.6 1 $w\n0.5 0 $w\n")
		[ "$output" = "auc auc=0.875 logloss=0.601986402 accuracy=0.75 n=4" ]
	done
}

@test "--labels: classes are compared as words, numbers have errors" {
	[ "$(printf 'a a\nb a 2\na%%20b a%%20b 1\nx -\n' | auc --labels class 2>/dev/null)" = "auc logloss= accuracy=0.5 n=3" ]
	# With the probability of the label: 2 of 4 samples have 0.5, which is -log(0.5) each.
	[ "$(printf 'a a 1 1\nb a 2 0.5\na a 1 1\nx - 1 -\n' | auc --labels class 2>/dev/null)" = \
		"auc logloss=0.34657359 accuracy=0.5 n=3" ]
	[ "$(printf 'a a 1 0\n' | auc --labels class)" = "auc logloss=34.5387764 accuracy=1 n=1" ]
	run -65 auc --labels class < <(printf 'a a 1 1.5\n')
	[[ "$output" == *"stdin:1: the probability is not a number from 0 to 1: '1.5'" ]]
	run -65 auc --labels class < <(printf 'a a 1 -\n')
	run -65 auc --labels class < <(printf 'a a 1 1 1\n')
	[[ "$output" == *"more than score, label, weight and probability"* ]]
	[ "$(printf '1 2\n-3 -3 2\n5.5 2.5\n' | auc --labels real)" = "auc rmse=1.58113883 mae=1 n=3" ]
	run -65 auc --labels real < <(printf '1 x\n')
	[[ "$output" == "auc: stdin:1: the label is not a number: 'x'" ]]
	run -65 auc --labels real < <(printf 'x 1\n')
	[[ "$output" == "auc: stdin:1: the score is not a number: 'x'" ]]
	run -64 auc --labels many </dev/null
	# Those of another kind: the message names what scores them.
	run -65 auc < <(printf 'red red\n')
	[[ "$output" == "auc: stdin:1: the score is not a number from 0 to 1: 'red' (names of classes: --labels class; "*"--labels real)" ]]
}
