# What DATA may be: names, formats, separators, packings; and what is said where it can't be read.
load helper

# refused STATUS TEXT [KEY=VALUE]...: the job of job.env, with these keys.
refused() {
	local status_wanted=$1 text=$2 word set=()
	shift 2
	for word; do set+=(--set "$word"); done
	run run_job "${set[@]}"
	[ "$status" -eq "$status_wanted" ] || { echo "$output"; return 1; }
	[[ $output == *"$text"* ]] || { echo "$output"; return 1; }
}

# same_model DIR: a run there has made a model that scores d.csv as that of the first run does.
same_model() {
	[ -e first ] || predict -c "$(ckpt latest run/state/checkpoints)" d.csv >first
	predict -c "$(ckpt latest "$1/state/checkpoints")" --format csv --separator , d.csv | cmp first -
}

@test "csv, tsv, semicolons: the same rows, the same model" {
	data 400
	tr , '\t' <d.csv >d.tsv
	tr , ';' <d.csv >d.txt
	job WORKERS=1 SERVERS=1
	run_job >out
	same_model run
	trainctl run job.env --run-dir "$T/tsv" --set DATA="$T/d.tsv" >out
	same_model tsv
	grep -qx FORMAT=tsv tsv/state/job.env
	grep -qx SEPARATOR=tab tsv/state/job.env
	trainctl run job.env --run-dir "$T/semicolon" --set DATA="$T/d.txt" --set SEPARATOR=';' >out
	same_model semicolon
	(. semicolon/state/job.env && [ "$FORMAT$SEPARATOR" = 'csv;' ])
}

@test "the wrong separator, no header, no label column: what to do is said" {
	data 400
	job
	tr , ';' <d.csv >semicolon.csv
	refused 65 "semicolon.csv:1: no column 'y': the header has 1 column; did you mean SEPARATOR=';'?" \
		DATA="$T/semicolon.csv"
	tr , '\t' <d.csv >d.tsv
	refused 65 "d.tsv:1: no column 'y': the header has 1 column; did you mean FORMAT=tsv?" \
		DATA="$T/d.tsv" FORMAT=csv
	tail -n +2 d.csv | tr -d c >numbers.csv
	refused 65 "numbers.csv:1: no column 'y': the first line holds numbers" DATA="$T/numbers.csv"
	grep -v LABEL job.env >no-label.env
	run trainctl run no-label.env --run-dir "$T/run" --set DATA="$T/d.tsv" --set DENSE= --set SPARSE=
	[ "$status" -eq 65 ]
	[[ $output == *"d.tsv:1:"*"if this is a header, say FORMAT=tsv and LABEL="* ]]
	refused 78 "SEPARATOR: 'xx' is neither one character" SEPARATOR=xx
	refused 78 "SEPARATOR: is for csv and tsv; FORMAT is criteo" FORMAT=criteo SEPARATOR=';' LABEL=
}
