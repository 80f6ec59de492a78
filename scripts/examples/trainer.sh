#!/bin/sh
# Logistic regression in sh and awk, trained by agent(1). The data are a csv: a header, then y,x1,x2,...
#     agent --id w0 --shards shardd.sock --lead lead.sock --batch 50 -- trainer.sh DATA.csv MODEL
# MODEL is a line of weights, the first without a column; at the end it is the result.
data=$1 model=$2 save=
[ -s "$model" ] || echo 0 >"$model"
[ -z "$PACELINE_RESUME" ] || cp "$PACELINE_RESUME" "$model"

# say WORD: "ok ..." or "err ..." in $answer, the batch's numbers in $rows, where to save in $save.
say() {
	echo "$*" >&"$PACELINE_OUT"
	rows=
	while read -r answer <&"$PACELINE_IN"; do
		case $answer in
		range*) rows="$rows ${answer#range }" ;;
		save*) save=${answer#save path=} # a space is written %20, and % itself %25
			save=$(echo "${save%% *}" | sed 's/%20/ /g; s/%25/%/g') ;;
		ok*|err*) return ;;
		esac
	done
	exit 1 # the agent is gone
}

while say next; do
	state=$answer batch=$rows
	[ -z "$save" ] || { cp "$model" "$save/model" && say saved path=model || say failed why=cp; save=; }
	case $state in *state=end*) exit 0 ;; *state=wait*) continue ;; esac
	loss=$(awk -F, -v ranges="$batch" -v rate=0.1 -v model="$model" '
		BEGIN { getline line <model; n = split(line, w, " "); close(model)
			k = split(ranges, r, /[ =]+/); for (i = 2; i <= k; i++) if (r[i - 1] == "begin") b = r[i]
				else if (r[i - 1] == "length") { first[++m] = b; last[m] = b + r[i] } }
		FNR == 1 { next }
		{ for (i = 1; i <= m && (FNR - 2 < first[i] || FNR - 2 >= last[i]);) i++ }
		i <= m { z = w[1]; for (j = 2; j <= NF; j++) z += w[j] * $j
			p = 1 / (1 + exp(-z)); loss -= log($1 ? p : 1 - p); count++
			g[1] += p - $1; for (j = 2; j <= NF; j++) g[j] += (p - $1) * $j; nf = NF }
		END { for (j = 1; j <= nf; j++) printf "%.9g ", w[j] - rate * g[j] / count >(model ".new")
			print loss / count }' "$data") && mv "$model.new" "$model" || exit 1
	say step loss="$loss"
done
