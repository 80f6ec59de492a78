#!/bin/sh
# Logistic regression in sh and awk, trained by agent(1). The data are a csv: a header, then y,x1,x2,...
#     "$(trainctl --exec-path)/agent" --id w0 --shards shardd.sock --lead lead.sock --batch 50 -- \
#         trainer.sh DATA.csv MODEL
# MODEL is a line of weights, the first without a column; at the end it is the result.
data=$1 model=$2 save=
[ -s "$model" ] || echo 0 >"$model"
[ -z "$PACELINE_RESUME" ] || cp "$PACELINE_RESUME" "$model"

say() { # WORD...: sets $one (a field of ok), $rows (BEGIN LENGTH ...), $save (where to)
	echo "$*" >&"$PACELINE_OUT"
	while read -r word one two seed <&"$PACELINE_IN"; do
		case $word in
		range) [ -z "$seed" ] || exit 78 # SHUFFLE=samples: this script does not know that order
			rows="$rows ${one#begin=} ${two#length=}" ;;
		save) save=$(echo "${one#path=}" | sed 's/%20/ /g; s/%25/%/g') ;; # records quote both
		ok|err) return ;;
		esac
	done
	exit 1 # the agent is gone
}

while rows= && say next; do
	state=$one
	[ -z "$save" ] || { cp "$model" "$save/model" && say saved path=model || say failed why=cp; save=; }
	case $state in state=end) exit 0 ;; state=wait) continue ;; esac
	loss=$(awk -F, -v ranges="$rows" -v rate=0.1 -v model="$model" '
		BEGIN { getline line <model; split(line, w, " "); n = split(ranges, r, " ") }
		{ for (i = 1; i < n && (FNR - 2 < r[i] || FNR - 2 >= r[i] + r[i + 1]);) i += 2 }
		i < n { y = $1 + 0; $1 = 1; z = 0; for (j = 1; j <= NF; j++) z += w[j] * $j
			p = 1 / (1 + exp(-z)); loss -= log(y ? p : 1 - p); count++; nf = NF
			for (j = 1; j <= nf; j++) g[j] += (p - y) * $j }
		END { for (j = 1; j <= nf; j++) printf "%.9g ", w[j] - rate * g[j] / count >(model ".new")
			print loss / count }' "$data") && mv "$model.new" "$model" || exit 1
	say step loss="$loss"
done
