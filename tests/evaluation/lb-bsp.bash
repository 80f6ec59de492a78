# LB-BSP, Fig. 9 and Table 3: Cluster-B's 32 workers, ResNet-32 with 128 images each, 500 iterations. Google's trace,
# whose hour the paper gave to its machines, is replaced by a made one after what is published of it (lb-cluster-trace.awk
# of tests/bench; another one with each seed), a step of it every 0.64 s, which is an even batch of a machine that nobody
# else uses. Workers foretell by their last batch (memoryless); backup: 34 workers, of which the first 32 count.
lb_trace() { # SEED WORKERS
	awk -v seed=$1 -v workers=$2 -v n=2000 -f "$HERE/../bench/lb-cluster-trace.awk" |
		awk '{ for (i = 2; i <= NF; i++) { split($i, f, "="); v[f[1]] = f[2] }
			printf "on at=%.2f id=%s speed=%s\n", v["k"] * 0.64, v["id"], v["speed"] }'
}
for seed in $SEEDS; do
	for n in 32 34; do lb_trace $seed $n >"$T/.trace$n.$seed"; done
	awk '{ sum[$2] += substr($4, 7) } $3 == "id=w31" { print $1, $2, "id=w0 speed=" sum[$2] }' "$T/.trace32.$seed" \
		>"$T/.together.$seed"
done

lb_job() { # SYNC SOLUTION [WORKERS [BACKUP]]
	local n=${3:-32}
	echo "job workers=$n servers=1 samples=2048000 batch=$((128 * n)) sync=$1 solution=$2 backup=${4:-0}"
	echo "cost message=0.0002 commit=0.001"
	echo "replay file=$T/.trace$n.@SEED@"
}
sim lb-bsp < <(lb_job bsp none)
sim lb-ssp < <(lb_job ssp:5 none)
sim lb-backup < <(lb_job bsp none 34 2)
sim lb-last < <(lb_job bsp lb-bsp)
# No sizes can do better than one worker with the speed of all together.
sim lb-oracle < <(lb_job bsp none | sed '1s/workers=32/workers=1/; s/trace32/together/')
row LB-BSP-Fig-9 0.58 "0.48 to 0.60" "LB-BSP, memoryless, of BSP's job time" lb-last / lb-bsp
row LB-BSP-Fig-9 - - "the best sizes, all speeds known in advance, of BSP's" lb-oracle / lb-bsp
row LB-BSP-Fig-9 - - "redundant execution, 2 of 34, of BSP's" lb-backup / lb-bsp
row LB-BSP-Fig-9 - - "SSP, 5 ahead, of BSP's" lb-ssp / lb-bsp

# Table 3. On those traces a machine is mostly as fast as it was before, so the last speed foretells better than an
# average; in the paper it is the other way round. So here what others use changes in each step, too (flicker), by so
# much that this is so. Workers see how busy their machine is, but not its spikes, which are delays. The first
# 500 iterations, in which the nets learn, are left out of the times; errors are those of speed-predict, 4 workers.
PREDICTORS='last ema arima rnn lstm narx'
for seed in $SEEDS; do
	awk -v seed=$seed -v workers=32 -v n=3000 -v flicker=0.1 -f "$HERE/../bench/lb-cluster-trace.awk" >"$T/.seen"
	awk '{ for (i = 2; i <= NF; i++) { split($i, f, "="); v[f[1]] = f[2] } late = 128 / v["speed"] - 128 / v["clean"]
		printf "on at=%.2f id=%s speed=%s delay=%.4f\n", v["k"] * 0.64, v["id"], v["clean"], (late > 0 ? late : 0) }' \
		"$T/.seen" >"$T/.flicker.$seed"
	awk '$2 ~ /^id=w[0-3]$/ && substr($3, 3) + 0 < 1000' "$T/.seen" >"$T/.seen.$seed"
done
lb_late() { # the time of an iteration from the 500th on
	awk '{ split("", v); for (i = 2; i <= NF; i++) { split($i, f, "="); v[f[1]] = f[2] } }
		$1 == "row" && v["iteration"] >= 500 && !from { from = v["at"]; first = v["iteration"] }
		$1 == "summary" {
			sub(/ jct=[^ ]*/, sprintf(" jct=%.6f", (v["at"] - from) / (v["iterations"] - first)))
			print
		}'
}
lb_flicker() { # SOLUTION [PREDICTOR]
	echo "job workers=32 servers=1 samples=3072000 batch=4096 sync=bsp solution=$1${2:+ predict=$2 load=1}"
	echo "cost message=0.0002 commit=0.001 sample=0.0025"
	echo "replay file=$T/.flicker.@SEED@"
}
lb_errors() { # SEED
	local model errors=
	for model in $PREDICTORS; do
		errors+=" $model=$(speed-predict -m $model --score-from 500 <"$T/.seen.$1" |
			awk '/^score/ { split($3, f, "="); sum += f[2] ^ 2 } END { print sqrt(sum / NR) }')"
	done
	echo "$errors" | awk '{ for (i = 1; i <= NF; i++) { split($i, f, "="); error[f[1]] = f[2] }
		printf "summary state=done"; for (m in error) printf " %s=%.4f", m, error[m] / error["ema"]; print "" }'
}
lb_3() { # MODEL TITLE ERROR TIME ERROR-BENCH TIME-BENCH
	[ $3 = - ] || [ $1 = ema ] || row LB-BSP-Table-3 $3 $5 "$2: error, of EMA's" lb-errors = $1
	sim lb-flicker-$1 lb_late < <(lb_flicker lb-bsp $1)
	row LB-BSP-Table-3 $4 "$6" "$2: time of an iteration, of BSP's" lb-flicker-$1 / lb-flicker
}
export PREDICTORS
made lb-errors lb_errors
sim lb-flicker lb_late < <(lb_flicker none)
lb_3 last memoryless 1.51 0.58 - "0.48 to 0.60"
lb_3 ema "EMA, 0.2" 1 0.48 - 0.63
lb_3 arima "ARIMA (2,2,1)" 1.23 0.52 - 0.60
lb_3 rnn "SimpleRNN, look-back 2" 1.06 0.49 - 0.63
lb_3 lstm "LSTM, look-back 2" 1.17 0.51 - 0.63
lb_3 narx "NARX, look-back 2" 0.61 0.42 0.49 0.60
lb_3 mix "all, weighed (the kit's)" - - - "0.47 to 0.60"

row LB-BSP-Fig-9 0.42 0.60 "LB-BSP (NARX) of BSP's, simulated on the machines of Table 3" lb-flicker-narx / lb-flicker

# Fig. 9's SVM. How long its iterations are is not said: here 0.2 s, or 2 s, on machines that nobody else uses, which are
# those of Table 3 (40 samples, or 400, of which those do 200 a second).
lb_svm() { # SAMPLES ITERATIONS SOLUTION [PREDICTOR]
	lb_flicker "${@:3}" | sed "1s/samples=3072000 batch=4096/samples=$((32 * $1 * $2)) batch=$((32 * $1))/; 2s/sample=0.0025/sample=0.005/"
}
for svm in "40 750" "400 600"; do
	sim lb-svm-${svm% *} lb_late < <(lb_svm $svm none)
	sim lb-svm-${svm% *}-narx lb_late < <(lb_svm $svm lb-bsp narx)
done
row LB-BSP-Fig-9 0.38 - "SVM: LB-BSP (NARX) of BSP's, if an iteration takes 0.2 s" lb-svm-40-narx / lb-svm-40
row LB-BSP-Fig-9 0.38 - "the same, if it takes 2 s" lb-svm-400-narx / lb-svm-400
row LB-BSP-Fig-9 0.61 "0.56 to 0.63" "LB-BSP's of FlexRR's" -

# Fig. 6: 16 GPUs, those of Fig. 8 four times; time until so many images have been trained, which for schemes whose
# updates are of 32 images each, or of 512 by 16 workers, is that of an update.
lb_6() { # SYNC SOLUTION
	echo "job workers=16 servers=1 samples=1280000 batch=512 sync=$1 solution=$2"
	echo "cost message=0.0002 commit=0.001"
	echo "device nodes=w0,w1,w2,w3 speed=113.6 launch=0.1"
	echo "device nodes=w4,w5,w6,w7 speed=26.8 launch=0.1"
	echo "device nodes=w8,w9,w10,w11 speed=15.3 launch=0.1"
	echo "device nodes=w12,w13,w14,w15 speed=13 launch=0.42"
}
sim lb-6-bsp < <(lb_6 bsp none)
sim lb-6-ssp < <(lb_6 ssp:5 none)
sim lb-6-asp < <(lb_6 asp none)
sim lb-6-lb < <(lb_6 bsp lb-bsp-gpu)
row LB-BSP-Fig-6 0.87 - "time of an update, Inception-V3, LB-BSP's of ASP's" lb-6-lb / lb-6-asp
row LB-BSP-Fig-6 - - "the same, of SSP's (5 ahead)" lb-6-lb / lb-6-ssp
row LB-BSP-Fig-6 - - "the same, of BSP's" lb-6-lb / lb-6-bsp

# Its updates until a near-optimal loss, measured by lb-updates: logistic regression, the best learning rate of each.
row LB-BSP-Fig-6 "almost 1" 1.23 "updates until a near-optimal loss, LB-BSP's of BSP's" -
row LB-BSP-Fig-6 "up to 2.05" 1.80 "the same, SSP's" -
row LB-BSP-Fig-6 "up to 4.76" 2.49 "the same, ASP's" -

# Fig. 7: a simulated job has no accuracy. Measured by lb-accuracy: sixteen workers, a small network over made images,
# two learning rates.
row LB-BSP-Fig-7 0.92 0.93 "accuracy in the end, ResNet-32: BSP" -
row LB-BSP-Fig-7 0.92 0.93 "LB-BSP" -
row LB-BSP-Fig-7 "below 0.88" 0.87 "SSP, 5 ahead" -
row LB-BSP-Fig-7 "below 0.88" 0.94 "ASP" -
row LB-BSP-Fig-7 - 0.94 "with three times the learning rate: BSP" -
row LB-BSP-Fig-7 - 0.94 "LB-BSP" -
row LB-BSP-Fig-7 - 0.10 "SSP, 5 ahead" -
row LB-BSP-Fig-7 - 0.92 "ASP" -

# Fig. 8: Inception-V3, four kinds of GPUs that begin with 32 images each. Of their speeds the text gives two (57 images
# more take a V100 0.5 s, 26 fewer a K520 2 s less); M60 and K80 follow from the sizes at which the paper's batches take
# equally long. So only when sizes come there is foretold.
lb_sizes() { # [FROM TO]: the sizes of iteration 150, or TO, and from which one on they were within one of those
	awk -v from=${1-0} -v to=${2-150} '{ split("", v); for (i = 2; i <= NF; i++) { split($i, f, "="); v[f[1]] = f[2] } }
		$1 == "row" { at = v["iteration"] }
		$1 == "series" && v["role"] == "worker" && at < to { size[v["id"], at] = v["size"]; last = at }
		$1 == "summary" {
			for (n = last; n > from && near; n--)
				for (w = 0; w < 4 && near; w++) {
					d = size["w" w, n] - size["w" w, last]
					if (("w" w, n) in size && (d > 1 || d < -1)) near = 0
				}
			print $0, "settled=" n + 2 - from, "v100=" size["w0", last], "m60=" size["w1", last], \
				"k80=" size["w2", last], "k520=" size["w3", last]
		}' near=1
}
lb_cut() { lb_sizes 150 600; }
lb_8() { # IMAGES: 95 MB of parameters cross links of 10 Gbit/s, as the worker's batch begins and ends
	echo "job workers=4 servers=1 samples=$1 batch=128 sync=bsp solution=lb-bsp-gpu bytes=95000000"
	echo "cost message=0.0002 commit=0.001"
	echo "device nodes=w0 speed=113.6 launch=0.1"
	echo "device nodes=w1 speed=26.8 launch=0.1"
	echo "device nodes=w2 speed=15.3 launch=0.1"
	echo "device nodes=w3 speed=13 launch=0.42"
	printf 'link id=%s rate=1250000000\n' w0 w1 w2 w3
}
sim lb-8 lb_sizes < <(lb_8 25600)
cut=$(lb_8 25600 | trainsim | sed -n 's/^row iteration=150 .* at=1\([0-9.]*\)$/\1/p')
sim lb-8-cut lb_cut < <(lb_8 102400; echo "link id=w1 rate=312500000 at=${cut:?no iteration 150}")
row LB-BSP-Fig-8 89 - "V100, images" lb-8 = v100
row LB-BSP-Fig-8 21 - "M60" lb-8 = m60
row LB-BSP-Fig-8 12 - "K80" lb-8 = k80
row LB-BSP-Fig-8 6 - "K520" lb-8 = k520
row LB-BSP-Fig-8 30 - "iteration from which on sizes only change by one" lb-8 = settled
row LB-BSP-Fig-8 - - "M60's link with a quarter of its rate from iteration 150 on: V100" lb-8-cut = v100
row LB-BSP-Fig-8 - - "M60" lb-8-cut = m60
row LB-BSP-Fig-8 - - "K80" lb-8-cut = k80
row LB-BSP-Fig-8 - - "K520" lb-8-cut = k520
row LB-BSP-Fig-8 - - "iterations until sizes only change by one again" lb-8-cut = settled

# Fig. 11, measured by lb-barrier: what the lead spends on new sizes for 96 workers, in percent of an iteration of 100 ms.
row LB-BSP-Fig-11 "less than 1.1" 0.09 "new sizes for 96 workers, percent of an iteration" -
