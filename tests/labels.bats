#!/usr/bin/env bats
load helper
# rooms: data model job

# Labels that are classes or numbers, and the models that learn them: from the rows to the scores; and
# how far the steps of an optimiser take a model.

# rows N SEED: a and b are numbers, c a category; kind is the largest of three sums, price a number.
rows() {
	awk -v n="$1" -v seed="$2" 'BEGIN {
		srand(seed); print "a,b,c,kind,price,big"
		split("Iris setosa,10,versi", name, ",")
		for (i = 0; i < n; i++) {
			a = 2 * rand() - 1; b = 2 * rand() - 1; c = int(3 * rand()) + 1
			s[1] = a + (c == 1); s[2] = b + (c == 2); s[3] = -a - b + (c == 3); k = 1
			for (j = 2; j <= 3; j++) if (s[j] > s[k]) k = j
			printf "%.4f,%.4f,%s,%s,%.1f,%s\n", a, b, substr("rgb", c, 1), name[k],
				200000 + 30000 * a - 10000 * b + 5000 * (c == 1) + 100 * rand(), (a + b > 0 ? "yes" : "no")
		}
	}'
}

# job LABEL MODEL [KEY=VALUE]...: trained on train.csv, which is made if it is not there.
job() {
	[ -e train.csv ] || { rows 3000 1 >train.csv && rows 500 2 >test.csv; }
	printf '%s\n' JOB=j DATA=train.csv TEST=test.csv FORMAT=csv DENSE=a,b SPARSE=c EPOCHS=6 BATCH=128 \
		LABEL="$1" MODEL="$2" >job.env
	shift 2
	local sets=() set
	for set in "$@"; do sets+=(--set "$set"); done
	run --separate-stderr trainctl run job.env --run-dir run "${sets[@]}" 3>&-
	echo "$stderr"
}

@test "classes: a softmax of names and numbers, scores, another class in TEST" {
	job kind softmax,scale:z
	[ "$status" = 0 ]
	checkpoint=$(ckpt latest run/state/checkpoints)
	[ "$(grep ^class "$checkpoint/schema" | tr '\n' ' ')" = "class name=10 class name=Iris%20setosa class name=versi " ]
	grep -q ' name=softmax .* classes=3' "$checkpoint/model"
	predict -c "$checkpoint" test.csv >scores
	[ "$(auc --labels class <scores)" = "auc logloss= accuracy=$(field accuracy <run/state/summary) n=500" ]
	predict -c "$checkpoint" --probabilities label test.csv >scores
	[ "$(auc --labels class <scores)" = "auc logloss=$(field logloss <run/state/summary) accuracy=$(
		field accuracy <run/state/summary) n=500" ]
	cut -d, -f4 --complement test.csv | predict -c "$checkpoint" --probabilities label | head -n 1 | grep ' - 1 -$'
	awk -v a="$(auc --labels class <scores | field accuracy)" 'BEGIN { exit !(a > 0.9) }'
	[ "$(cut -d' ' -f2 scores | sort -u | tr '\n' ' ')" = "10 Iris%20setosa versi " ]
	predict -c "$checkpoint" --probabilities all test.csv | paste -d' ' - scores | awk '{
		s = $4 + $5 + $6; if (NF != 10 || $3 != 1 || s < 0.999 || s > 1.001) exit 1
		best = $4 >= $5 && $4 >= $6 ? "10" : $5 >= $6 ? "Iris%20setosa" : "versi"
		if (best != $1) exit 2
		if ($10 != ($2 == "10" ? $4 : $2 == "versi" ? $6 : $5)) exit 3
		loss -= log($10) } END { print loss / NR }' >loss
	awk -v a="$(cat loss)" -v b="$(auc --labels class <scores | field logloss)" \
		'BEGIN { exit !(a > 0 && a - b < 1e-5 && b - a < 1e-5) }'
	# A row of a class that training never saw.
	sed '3s/,[^,]*,\([0-9.]*,[a-z]*\)$/,rosa,\1/' test.csv >other.csv
	run -65 predict -c "$checkpoint" other.csv
	[[ "$output" == *"other.csv:3:"*": label 'rosa' is none of the 3 classes"* ]]
	# The same number of classes, but not the same.
	mv "$checkpoint" start && rm -rf run
	sed -i 's/versi/rosa/' train.csv test.csv
	job kind softmax,scale:z "INIT=$PWD/start"
	[ "$status" = 78 ]
	[[ "$stderr" == *"INIT: its classes are not those of DATA"* ]]
}

@test "numbers: linear regression, in the label's units" {
	job price linear,scale:z
	[ "$status" = 0 ]
	checkpoint=$(ckpt latest run/state/checkpoints)
	predict -c "$checkpoint" test.csv >scores
	run -0 auc --labels real <scores
	[ "$(echo "$output" | field rmse)" = "$(field rmse <run/state/summary)" ]
	[ "$(echo "$output" | field mae)" = "$(field mae <run/state/summary)" ]
	awk -v e="$(echo "$output" | field rmse)" 'BEGIN { exit !(e > 20 && e < 8000) }'
	run -78 predict -c "$checkpoint" --probabilities all test.csv
	[ "$output" = "predict: --probabilities: labels of this model are no classes" ]
	# The labels as they are in the file, up to a float.
	paste -d' ' scores <(tail -n +2 test.csv | cut -d, -f5) |
		awk '{ d = $2 - $3; if (d > 0.1 || d < -0.1) exit 1 }'
}

@test "mlp: two spirals, which no straight line tells apart" {
	for seed in 1 2; do
		awk -v seed=$seed 'BEGIN {
			srand(seed); print "x,y,arm"; pi = atan2(0, -1)
			for (i = 0; i < 1000; i++) {
				r = sqrt(rand()); a = pi * (3 * r + i % 2)
				printf "%.4f,%.4f,%s\n", r * cos(a), r * sin(a), i % 2 ? "in" : "out"
			}
		}' >spiral-$seed.csv
	done
	printf '%s\n' JOB=j DATA=spiral-1.csv TEST=spiral-2.csv FORMAT=csv DENSE=x,y LABEL=arm BATCH=50 EPOCHS=100 \
		SHUFFLE=samples WORKERS=1 MODEL=mlp,hidden:32-32,scale:z OPTIMIZER=adam,lr:0.01 >job.env
	run -0 trainctl run job.env --run-dir run 3>&-
	awk -v a="$(field accuracy <run/state/summary)" 'BEGIN { exit !(a >= 0.99) }'
	# The same with labels of two values, and categories beside.
	printf '%s\n' MODEL=labels:binary POSITIVE=in >>job.env
	run -0 trainctl run job.env --run-dir run2 3>&-
	awk -v a="$(field auc <run2/state/summary)" 'BEGIN { exit !(a >= 0.99) }'
}

@test "mlp: embeddings of categories; numbers; data that it can't take" {
	job price mlp,labels:real,hidden:8,embed:4,scale:z OPTIMIZER=adam,lr:0.01
	[ "$status" = 0 ]
	awk -v e="$(field rmse <run/state/summary)" 'BEGIN { exit !(e > 20 && e < 12000) }'
	checkpoint=$(ckpt latest run/state/checkpoints)
	grep -q '^table name=keys width=4 ' "$checkpoint/layout"
	rm -rf run
	sed '5s/^[^,]*/nan/' train.csv >odd.csv
	job price mlp,labels:real DATA=odd.csv
	[ "$status" = 65 ]
	[[ "$stderr" == *"odd.csv:5:1: "* ]]
	rm -rf run
	printf '1 1:2\n0 2:1\n' >a.svm
	printf '%s\n' JOB=j DATA=a.svm MODEL=mlp >job.env
	run -78 trainctl run job.env --run-dir run 3>&-
	[[ "$output" == *"mlp needs dense columns"* ]]
}

@test "layers that the memory of this machine has no room for: nothing is begun" {
	[ "$(awk '/^MemTotal/ { print int($2 / 1048576) }' /proc/meminfo)" -lt 200 ] || skip "it has room"
	local wide=65536-65536-65536-65536
	job big wdl,hidden:$wide-$wide POSITIVE=yes
	[ "$status" = 78 ]
	[[ "$stderr" == *"trainctl: MODEL: the parameters of its layers, "*" WORKERS=2 compute with, need 451 GiB of memory, and this machine has "* ]]
	run -78 trainctl check job.env --run-dir run --set POSITIVE=yes 3>&-
	[[ "$output" == *"need 451 GiB"* ]]
	# Few parameters, but maps of many elements.
	run -78 trainctl check job.env --run-dir run --set POSITIVE=yes --set WORKERS=256 --set BATCH=256 \
		--set MODEL=xdeepfm,hidden:8,embed:1024,cin:1024-1024-1024-1024-1024-1024-1024-1024 3>&-
	[[ "$output" == *"WORKERS=256 compute with, need 247 GiB of memory"* ]]
	job big wdl,hidden:8 POSITIVE=yes
	[ "$status" = 0 ]
}

@test "svm: both losses" {
	for loss in hinge squared-hinge; do
		job big "svm,loss:$loss" POSITIVE=yes
		[ "$status" = 0 ]
		awk -v a="$(field auc <run/state/summary)" 'BEGIN { exit !(a > 0.99) }'
		grep -q " loss=$loss" "$(ckpt latest run/state/checkpoints)/model"
		rm -rf run
	done
}

@test "census: the AUC of models of two labels, on rows that they were not trained on" {
	need_data adult-train.csv.gz
	local model best floor
	printf '%s\n' JOB=j "DATA=$DATA/adult-train.csv.gz" "TEST=$DATA/adult-test.csv" FORMAT=csv LABEL=income \
		"POSITIVE='>50K'" DENSE=age,education_num,capital_gain,capital_loss,hr_per_week \
		SPARSE=type_employer,education,marital,occupation,relationship,race,sex,country \
		EPOCHS=3 BATCH=256 WORKERS=1 >census.env
	# None is as good as it should be if it lacks a part that another has: over five seeds they had
	# 0.9076, 0.9090 to 0.9097, 0.9129 to 0.9137, and 0.9137 to 0.9144; deepfm without its pairs 0.9129;
	# dcn 0.9124 to 0.9133, xdeepfm 0.9130 to 0.9144, ffm 0.9105 to 0.9107.
	for model in lr:0.907 fm:0.9085 wdl:0.912 deepfm:0.9133 dcn:0.9115 xdeepfm:0.912 ffm:0.91; do
		run --separate-stderr -0 trainctl run census.env --run-dir run --set "MODEL=${model%:*},hash-bits:16" 3>&-
		best=$(field auc <run/state/summary) floor=${model#*:}
		echo "$model: $best"
		awk -v a="$best" -v f="$floor" 'BEGIN { exit !(a >= f && a < 0.95) }'
		rm -rf run
	done
}

@test "labels that can't be: the place, and why" {
	refused() { # LABEL MODEL TEXT [KEY=VALUE]...
		local text=$3
		job "$1" "$2" "${@:4}"
		[ "$status" -ge 64 ]
		[[ "$stderr" == *"$text"* ]]
		rm -rf run
	}
	rows 3000 1 >good.csv
	rows 500 2 >test.csv
	sed '7s/,[^,]*,\([0-9.]*,[a-z]*\)$/,nan,\1/' good.csv >train.csv
	refused kind softmax "train.csv:7:"
	[[ "$stderr" == *"label 'nan' is no class"* ]]
	sed "7s/,[^,]*,\([0-9.]*,[a-z]*\)\$/,$(printf '%0600d' 0 | tr 0 x),\1/" good.csv >train.csv
	refused kind softmax "train.csv:7:"
	[[ "$stderr" == *"has 600 bytes; a class has 500 at most"* ]]
	sed '7s/,[^,]*,\([a-z]*\)$/,nan,\1/' good.csv >train.csv
	refused price linear "train.csv:7:"
	[[ "$stderr" == *"label 'nan' is no number"* ]]
	sed '7s/,[^,]*,\([a-z]*\)$/,1e300,\1/' good.csv >train.csv
	refused price linear "label '1e300' is no number"
	sed '7s/,[^,]*,\([a-z]*\)$/,,\1/' good.csv >train.csv
	refused price linear "the label is empty"
	cp good.csv train.csv
	refused kind lr "label '"
	refused kind softmax "is for models of two labels; labels of this one are classes (mlp: MODEL=mlp,labels:binary)" POSITIVE=10
	awk -F, -v OFS=, 'NR > 1 { $4 = "one" } 1' good.csv >train.csv
	refused kind softmax "all rows have the label 'one'"
	cp good.csv train.csv
	sed '9s/,[^,]*,\([0-9.]*,[a-z]*\)$/,rosa,\1/' test.csv >t && mv t test.csv
	refused kind softmax "test.csv:9:"
}

@test "OPTIMIZER: schedule, warmup, decay and clip reach the parameters" {
	# far OPTIMIZER: how far from 0.5 the scores are, at most.
	far() {
		job big lr,scale:z POSITIVE=yes "OPTIMIZER=$1" >&2
		[ "$status" = 0 ]
		predict -c "$(ckpt latest run/state/checkpoints)" test.csv |
			awk '{ d = $1 - 0.5; d = d < 0 ? -d : d; if (d > m) m = d } END { print m }'
		rm -rf run
	}
	local most
	most=$(far sgd,lr:0.1)
	awk -v m="$most" 'BEGIN { exit !(m > 0.1) }'
	local rate limit
	# A clip that left the rows of the table out would let them take scores 0.009 far.
	while read -r rate limit; do
		most=$(far "sgd,lr:0.1,$rate" </dev/null)
		echo "$rate: $most"
		awk -v m="$most" -v l="$limit" 'BEGIN { exit !(m > 0 && m < l) }'
	done <<-END
		schedule:cosine,steps:1 0.05
		schedule:step,steps:1,factor:0.01 0.05
		warmup:1000000 0.05
		clip:0.0001 0.005
	END
	# All but the last step is gone.
	most=$(far sgd,lr:1,decay:1)
	awk -v m="$most" 'BEGIN { exit !(m > 0 && m < 0.4) }'
}
