package hftok

import "github.com/kvsteer/kvsteer/internal/jsonscan"

// vocabulary spells tokens by id. The library can tell a token's text, not its
// spelling, so it is read from the file.
type vocabulary map[uint32]string

// readVocabulary reads the tokens of the model, whose vocabulary is an object with
// ids or, for Unigram, a list in the order of the ids, and the added ones, which
// count before those.
func readVocabulary(file jsonscan.Object) vocabulary {
	v := vocabulary{}
	tokens := file.Value("model").Get("vocab")
	next := int64(0)
	for it := tokens.Iter(); it.Next(); next++ {
		if it.Key() != nil {
			id, ok := it.Value().Int()
			v.add(string(it.Key()), id, ok)
			continue
		}
		if entry := it.Value().Iter(); entry.Next() {
			token, ok := entry.Value().Str()
			v.add(token, next, ok)
		}
	}
	for it := file.Value("added_tokens").Iter(); it.Next(); {
		token, named := it.Value().Get("content").Str()
		id, ok := it.Value().Get("id").Int()
		v.add(token, id, named && ok)
	}
	return v
}

// add ignores what is no token: whether the file is sound, the library says.
func (v vocabulary) add(token string, id int64, ok bool) {
	if ok && id >= 0 && id <= int64(^uint32(0)) {
		v[uint32(id)] = token
	}
}
