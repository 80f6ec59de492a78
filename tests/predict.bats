#!/usr/bin/env bats
# rooms: data model
load helper

# Models are trained once, by trainctl, on data made here; an oracle in awk scores the rows again from
# the exported parameters.
setup_file() {
	export MODELS=$BATS_FILE_TMPDIR
	cd "$MODELS" || return 1
	awk 'BEGIN {
		srand(5)
		print "colour,x,y,clicked,importance"
		split("red green blue", colour, " ")
		for (i = 0; i < 600; i++) {
			c = int(rand() * 3) + 1; x = rand() * 4 - 2; y = rand()
			z = 2 * (c - 2) + x - y
			print colour[c] "," x "," y "," (rand() < 1 / (1 + exp(-z)) ? "yes" : "no") "," int(rand() * 3)
		}
	}' >rows.csv
	train lr MODEL=lr WEIGHT=
	train wdl MODEL=wdl,embed:4,hidden:8-4 WEIGHT=
	train scaled MODEL=wdl,embed:6,hidden:8-4,scale:log-z WEIGHT= MISSING=NA,?
	train fm MODEL=fm,embed:5 SPARSE=colour,importance WEIGHT=
	train deepfm MODEL=deepfm,embed:6,hidden:8-4 SPARSE=colour,importance WEIGHT=
	train dcn MODEL=dcn,embed:6,hidden:8-4,cross:2 SPARSE=colour,importance WEIGHT=
	train xdeepfm MODEL=xdeepfm,embed:6,hidden:8-4,cin:5-4-3 SPARSE=colour,importance WEIGHT=
	train ffm MODEL=ffm SPARSE=colour,importance WEIGHT=
	train weighted MODEL=lr WEIGHT=importance
	train audit MODEL=audit WEIGHT=
	awk 'BEGIN {
		srand(6)
		for (i = 0; i < 300; i++) {
			line = rand() < 0.5
			for (k = 0; k < 13; k++) line = line "\t" (rand() < 0.1 ? "" : int(rand() * 100))
			for (k = 0; k < 26; k++) line = line "\t" sprintf("%08x", rand() * 50)
			print line
		}
	}' >rows.tsv
	train criteo MODEL=lr,scale:log-z WEIGHT= FORMAT=criteo DATA=rows.tsv LABEL= POSITIVE= NEGATIVE= DENSE= \
		SPARSE=
}

# train NAME KEY=VALUE...: a checkpoint as $MODELS/NAME; $MODELS/start is that of the start.
train() {
	local name=$1 key sets=()
	shift
	for key in "$@"; do sets+=(--set "$key"); done
	cat >job.env <<-'END'
		JOB=predict
		DATA=rows.csv
		FORMAT=csv
		LABEL=clicked
		POSITIVE=yes
		NEGATIVE=no
		DENSE=x,y
		MODEL=scale:none,hash-bits:12
		SPARSE=colour
		BATCH=64,shard:2
		EPOCHS=3
		WORKERS=1
		SERVERS=2
		OPTIMIZER=lr:0.3
		SEED=9
	END
	trainctl run job.env --run-dir "$MODELS/run" "${sets[@]}" >"$name.log" 2>&1 3>&- || {
		cat "$name.log" >&2
		return 1
	}
	rm -rf start && mv run/state/checkpoints/000001 start
	mv "$(ckpt latest run/state/checkpoints)" "$name" && rm -rf run
}

# floats FILE NAME: the tensor's values, one a line.
floats() {
	local header at
	header=$(od -An -tu8 -N 8 "$1" | tr -d ' ')
	at=$(tail -c +9 "$1" | head -c "$header" |
		grep -o "\"$2\":{[^}]*}" | grep -o '"data_offsets":.*' | tr -dc '0-9,')
	od -An -v -tf4 -w4 -j $((8 + header + ${at%,*})) -N $((${at#*,} - ${at%,*})) "$1"
}

@test "usage" {
	run -0 predict --help
	[[ "$output" == usage:* ]]
	run -0 predict --version
	run -64 predict
	run -64 predict -c "$MODELS/lr" --format arff
	run -64 predict -c "$MODELS/lr" --bad-rows some
	run -64 predict -c "$MODELS/lr" --what
}

@test "lr: scores are those of the exported parameters" {
	ckpt export "$MODELS/lr" m.safetensors
	tail -c +9 m.safetensors | grep -a -o '"[a-z.]*":{"dtype' | tr -d '":{' | sed 's/dtype//' >names
	table=$(grep 'values$' names)
	floats m.safetensors bias >bias
	floats m.safetensors dense.weight >weight
	floats m.safetensors "$table" >rows
	[ "$(wc -l <weight)" = 2 ]
	[ "$(wc -l <rows)" = 3 ]
	# What a colour adds must be a row of the table, another one for each colour.
	printf 'colour,x,y\nred,0,0\ngreen,0,0\nblue,0,0\nviolet,0,0\nred,1.5,0\nred,0,-2\n' >in.csv
	run -0 predict -c "$MODELS/lr" in.csv
	[ "${#lines[@]}" = 6 ]
	echo "$output" | awk '
	function near(a, b) { return a - b < 1e-4 && b - a < 1e-4 }
	FILENAME == "bias" { bias = $1; next }
	FILENAME == "weight" { w[++n] = $1; next }
	FILENAME == "rows" { row[++r] = $1; next }
	{ logit[++k] = log($1 / (1 - $1)); if ($2 != "-") exit 1 }
	END {
		for (c = 1; c <= 3; c++)
			for (i = 1; i <= 3; i++)
				if (!used[i] && near(logit[c], bias + row[i])) { used[i] = 1; hits++; break }
		if (hits != 3) exit 2
		if (!near(logit[4], bias)) exit 3
		if (!near(logit[5], logit[1] + 1.5 * w[1])) exit 4
		if (!near(logit[6], logit[1] - 2 * w[2])) exit 5
	}' bias weight rows -
}

@test "an export says by itself how to score: another program, the same scores" {
	for model in lr wdl scaled fm deepfm dcn xdeepfm ffm; do
		ckpt export "$MODELS/$model" "$model.safetensors"
		grep -a -q '"schema":"schema version=1 .*","model":"model version=1 .*","layout":"layout v' \
			"$model.safetensors"
	done
	python3 -c 'import ctypes; ctypes.CDLL("libxxhash.so.0")' || skip "no python3 with libxxhash"
	# Also a missing value, a category never seen, bytes that are no UTF-8, and columns elsewhere.
	{
		head -n 100 "$MODELS/rows.csv"
		printf 'violet,,-1e6,yes,1\n,0.5,,no,1\n"a, b",1,-0.25,yes,1\ncaf\351,1,1,yes,1\n?,1,1,yes,1\n'
	} >in.csv
	awk -F, 'NR < 101 { print $5 "," $3 "," $2 "," $1 }' in.csv >turned.csv
	for model in lr wdl scaled fm deepfm dcn xdeepfm ffm; do
		for file in in.csv turned.csv; do
			predict -c "$MODELS/$model" "$file" >right
			python3 "$PACELINE_ROOT/scripts/examples/score.py" "$model.safetensors" <"$file" |
				paste -d' ' right - |
				awk '{ d = $1 - $3; if (NF != 3 || d > 1e-6 || d < -1e-6) { print; bad = 1 } }
					END { exit bad || NR < 99 }'
		done
	done
}

@test "a trained model knows its data, lr and wdl" {
	for model in lr wdl; do
		run -0 predict -c "$MODELS/$model" "$MODELS/rows.csv"
		[ "${#lines[@]}" = 600 ]
		echo "$output" | auc >score
		awk '{ sub("auc auc=", ""); exit !($1 > 0.85) }' score
	done
}

@test "one output line a row, in input order, whatever the batches" {
	predict -c "$MODELS/wdl" "$MODELS/rows.csv" >all
	# The rows ten times over, and then one by one.
	head -n 1 "$MODELS/rows.csv" >ten.csv
	for i in 1 2 3 4 5 6 7 8 9 10; do tail -n +2 "$MODELS/rows.csv"; done >>ten.csv
	predict -c "$MODELS/wdl" <ten.csv | head -n 1800 | tail -n 600 | cut -d' ' -f2 >labels
	cut -d' ' -f2 all | cmp - labels
	for i in 2 300 601; do
		sed -n "1p;${i}p" "$MODELS/rows.csv" | predict -c "$MODELS/wdl" >one
		sed -n "$((i - 1))p" all | paste -d' ' - one |
			awk '{ d = $1 - $3; exit !(d < 1e-6 && d > -1e-6 && $2 == $4) }'
	done
}

@test "-j: the newest checkpoint of a job" {
	mkdir -p home/paceline/j/checkpoints
	cp -r "$MODELS/lr" home/paceline/j/checkpoints/000003
	predict -c "$MODELS/lr" "$MODELS/rows.csv" >right
	predict "$MODELS/rows.csv" -j j | cmp - right
	mkdir run
	mv home/paceline/j run/state
	predict --run-dir run "$MODELS/rows.csv" | cmp - right
	rm -r run/state/checkpoints/*
	cp -r "$MODELS/start" run/state/checkpoints/000001
	run -0 --separate-stderr predict --run-dir run <"$MODELS/rows.tsv"
	[[ $stderr == "predict: the newest checkpoint is that of the job's start, before any batch; "* ]]
	run -66 predict -j j "$MODELS/rows.csv"
	run -64 predict -j j -c "$MODELS/lr" "$MODELS/rows.csv"
}

@test "labels: 1, 0, and - where there is none" {
	printf 'clicked,y,colour,x,more\nyes,1,red,1,?\nno,1,red,1,?\n,1,red,1,?\n' >in.csv
	run -0 predict -c "$MODELS/lr" in.csv
	[ "$(echo "$output" | cut -d' ' -f2 | xargs)" = "1 0 -" ]
	[ "$(echo "$output" | cut -d' ' -f1 | uniq | wc -l)" = 1 ]
	run -0 auc < <(predict -c "$MODELS/lr" in.csv)
	[ "${lines[0]}" = "auc: stdin: 1 of 3 rows have no label and are ignored" ]
	[ "$(echo "$output" | field n)" = 2 ]
}

@test "a weight column comes out as the third word" {
	tail -n +2 "$MODELS/rows.csv" | cut -d, -f5 >weights
	predict -c "$MODELS/weighted" "$MODELS/rows.csv" >scores
	cut -d' ' -f3 scores | cmp - weights
	auc <scores
}

@test "several files, gzip, standard input" {
	predict -c "$MODELS/lr" "$MODELS/rows.csv" >all
	gzip -c "$MODELS/rows.csv" >rows.gz
	predict -c "$MODELS/lr" rows.gz | cmp - all
	predict -c "$MODELS/lr" - <rows.gz | cmp - all
	predict -c "$MODELS/lr" rows.gz "$MODELS/rows.csv" >twice
	cat all all | cmp - twice
}

@test "rows are scored while the pipe stays open" {
	mkfifo in
	start predict predict -c "$MODELS/lr" in
	exec 7>in
	printf 'x,y,colour,clicked\n1,1,red,yes\n' >&7
	wait_for '[ "$(wc -l <predict.out)" = 1 ]'
	printf '1,1,red,yes\n1,1,blue,yes\n' >&7
	wait_for '[ "$(wc -l <predict.out)" = 3 ]'
	exec 7>&-
	wait "$PID"
}

@test "bad rows stop with their place, or are left out and counted" {
	printf 'x,y,colour,clicked\n1,1,red,yes\n1,one,red,yes\n1,1,red,maybe\n1,1,red,no\n' >bad.csv
	run -65 --separate-stderr predict -c "$MODELS/lr" bad.csv
	[[ "$stderr" == "predict: bad.csv:3:"* ]]
	run -0 --separate-stderr predict -c "$MODELS/lr" --bad-rows skip:2 bad.csv
	[ "${#lines[@]}" = 2 ]
	[[ "$stderr" == *"2 bad rows left out"* ]]
	run -65 --separate-stderr predict -c "$MODELS/lr" --bad-rows skip:1 bad.csv
	[[ "$stderr" == *"bad.csv:4:"* ]]
	# The limit is one for all files.
	run -65 --separate-stderr predict -c "$MODELS/lr" --bad-rows skip:3 bad.csv bad.csv
}

@test "bad input: a column missing, no header, a cut gzip, a row that ends in mid-line" {
	printf 'x,colour\n1,red\n' >in.csv
	run -65 predict -c "$MODELS/lr" in.csv
	[[ "$output" == *"in.csv:1"*"y"* ]]
	run -65 predict -c "$MODELS/lr" </dev/null
	run -66 predict -c "$MODELS/lr" missing.csv
	gzip -c "$MODELS/rows.csv" | head -c 500 >cut.gz
	run -65 --separate-stderr predict -c "$MODELS/lr" cut.gz
	[[ "$stderr" == *"cut.gz"* ]]
	# A row cut off in its middle lacks columns.
	printf 'x,y,colour,clicked\n1,1,red,yes\n1,1' >mid.csv
	run -65 --separate-stderr predict -c "$MODELS/lr" mid.csv
	[[ "$stderr" == "predict: mid.csv:3"* ]]
}

@test "a checkpoint that can't be used is refused" {
	run -66 predict -c none </dev/null
	run -78 predict -c "$MODELS/audit" </dev/null
	[[ "$output" == *"audit"* ]]
	cp -r "$MODELS/lr" c
	printf 'x' >>c/model
	run -65 predict -c c </dev/null
	rm c/MANIFEST
	run -66 predict -c c </dev/null
	cp -r "$MODELS/lr" e
	at=$(grep -a -o 'section=dense at=[0-9]*' e/part-0 | cut -d= -f3)
	printf '\377\377' | dd of=e/part-0 bs=1 seek="$at" conv=notrunc status=none
	run -65 predict -c e </dev/null
	[[ "$output" == *"e/part-0: block "* ]]
}

@test "another format only where it has the columns" {
	run -78 predict -c "$MODELS/lr" --format libsvm </dev/null
	run -78 predict -c "$MODELS/lr" --format criteo </dev/null
	run -0 predict -c "$MODELS/lr" --format csv "$MODELS/rows.csv"
	[ "${#lines[@]}" = 600 ]
	predict -c "$MODELS/criteo" "$MODELS/rows.tsv" >from-tsv
	[ "$(sort -u from-tsv | wc -l)" = 300 ]
	{
		echo "label $(seq -f I%g 13 | xargs) $(seq -f C%g 26 | xargs)" | tr ' ' ','
		tr '\t' ',' <"$MODELS/rows.tsv"
	} >rows.csv
	predict -c "$MODELS/criteo" --format csv rows.csv | cmp - from-tsv
	run -78 predict -c "$MODELS/criteo" --format libsvm rows.csv
}

@test "a csv's model scores a tsv and other separators" {
	predict -c "$MODELS/lr" "$MODELS/rows.csv" >want
	tr , '\t' <"$MODELS/rows.csv" >rows.tsv
	tr , ';' <"$MODELS/rows.csv" >semicolons.csv
	predict -c "$MODELS/lr" --format tsv rows.tsv | cmp - want
	predict -c "$MODELS/lr" --separator tab rows.tsv | cmp - want
	predict -c "$MODELS/lr" semicolons.csv --separator ';' | cmp - want
	run -65 --separate-stderr predict -c "$MODELS/lr" semicolons.csv
	[[ $stderr == *"semicolons.csv:1: no column "*"did you mean --separator ';'?"* ]]
	run -65 --separate-stderr predict -c "$MODELS/lr" rows.tsv
	[[ $stderr == *"rows.tsv:1: no column "*"did you mean --format tsv?"* ]]
	run -64 predict -c "$MODELS/lr" --separator x rows.tsv
	[[ $output == "predict: --separator: 'x' is neither one character"* ]]
	run -64 predict -c "$MODELS/lr" --format tsv --separator ';' rows.tsv
	[ "${lines[0]}" = "predict: --separator: --format tsv has tabs; with ';' between fields it is --format csv" ]
	run -78 predict -c "$MODELS/criteo" --format libsvm rows.tsv
}

@test "output that can't be written is an error" {
	[ -w /dev/full ] || skip "no /dev/full"
	status=0
	predict -c "$MODELS/lr" "$MODELS/rows.csv" nothing.csv >/dev/full 2>err || status=$?
	[ "$status" = 74 ]
	[ "$(cat err)" = "predict: standard output: No space left on device" ]
}

@test "the rows before a bad one have been scored" {
	{ head -4 "$MODELS/rows.csv"; echo red,x,1,yes,1; } >in.csv
	run -65 --separate-stderr predict -c "$MODELS/lr" in.csv
	[ "${#lines[@]}" = 3 ]
	[[ "$stderr" == *"in.csv:5:5: "* ]]
}

@test "kernels of OpenBLAS that are wrong here do not score" {
	predict -c "$MODELS/wdl" "$MODELS/rows.csv" >right
	wrong_kernels
	export XDG_CACHE_HOME=$T/cache
	KERNELS_WRONG=default run --separate-stderr -0 predict -c "$MODELS/wdl" <"$MODELS/rows.csv"
	[[ $stderr == *"predict: "*": these matrix kernels compute wrong results: "*"starts anew with "* ]]
	# the sums are made in another order
	paste -d' ' right <(echo "$output") | awk 'NF != 4 || $2 != $4 || ($1 - $3) ^ 2 > 1e-10 { bad = 1 }
		END { exit bad || NR != 600 }'
	[ -s cache/paceline/blas ]
	OPENBLAS_CORETYPE=Prescott KERNELS_WRONG=default run --separate-stderr -0 predict \
		-c "$MODELS/wdl" "$MODELS/rows.csv"
	[ -z "$stderr" ]
	rm -r cache
	KERNELS_WRONG=all run -78 predict -c "$MODELS/lr" "$MODELS/rows.csv"
}
