#!/usr/bin/zsh -f
# complete.zsh: what zsh offers for each line of standard input, when TAB is typed at its end.
#
#   tests/complete.zsh DIR    DIR holds _paceline
#
# Prints LINE -> WORD WORD..., as zsh was given them by the completion, in a terminal of its own.
zmodload zsh/zpty
zpty shell zsh -f -i
until_mark() {
	local line
	while zpty -r shell line; do
		line=${line%%[[:space:]]#}
		line=${line//$'\r'/}
		line=${line%$'\n'}
		[[ $line != *'<mark>'* ]] || return 0
		[[ $line != '<offer>'* ]] || print -r -- "${line#<offer>}"
	done
	return 1
}
setopt extendedglob
# Words are noted where they are handed to zsh; -O and the like ask, and offer nothing.
cat >$TMPPREFIX.complete.$$ <<'S'
PROMPT= RPROMPT= PS2=
unset zle_bracketed_paste
stty -echo -onlcr
fpath=($1 $fpath)
autoload -Uz compinit
compinit -u -D
setopt extendedglob
compadd() {
	if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then
		builtin compadd "$@"
		return
	fi
	local -a noted
	builtin compadd -O noted "$@"
	print -rl -- '<offer>'$^noted
	builtin compadd "$@"
}
ask() {
	zle -C ask-word complete-word ask-completer
	BUFFER=$asked CURSOR=$#asked
	zle ask-word
	print -r -- '<mark>'
	BUFFER=
	zle accept-line
}
ask-completer() { _main_complete; compstate[insert]=; compstate[list]=; }
zle -N ask
bindkey '^T' ask
print -r -- '<mark>'
S
zpty -w shell "set -- ${(q)1}; source $TMPPREFIX.complete.$$"
until_mark
rm $TMPPREFIX.complete.$$
while IFS= read -r line; do
	zpty -w shell "asked=${(q)line}; print -r -- '<mark>'"
	until_mark
	zpty -n -w shell $'\x14'
	words=(${(f)"$(until_mark)"})
	print -r -- "$line -> ${(ou)words}"
done
zpty -d shell
