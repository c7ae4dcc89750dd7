// The story grammar as data: vocabulary, lexicons, variables, rules. Read by stories_symbols.c; the
// notation is told in stories_grammar.h.
//
// To add a story: write its rows; run test_cli_stories, whose table check names what is missing
// (a word not in the vocabulary, a rule that nothing uses) and whose kept hash then changes.
//
// Rules that the check enforces: rules of one name stand together and have one level; conditions
// stand first in their row; no recursion; a word after a closing quote is a speech verb.
#include "cli/stories_grammar.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

// clang-format off

// <|end|> is STORIES_END; the rest is sorted without regard to case.
const char *const grammar_words[] = {
  "<|end|>",
  "!", "''", ",", ".", "?", "``", "a", "all", "am", "an", "and", "Anna", "are", "asked", "at",
  "ate", "away", "ball", "be", "beach", "bear", "bed", "behind", "Ben", "best", "big", "bird",
  "birthday", "blue", "bone", "book", "boy", "brave", "bread", "but", "by", "cake", "came", "can",
  "carrot", "cart", "cat", "cheese", "climbed", "could", "crept", "cried", "cry", "dad", "danced",
  "dark", "day", "do", "dog", "down", "drum", "duck", "find", "fish", "flew", "fly", "for",
  "forest", "found", "friend", "friends", "from", "garden", "gave", "girl", "gone", "grass",
  "had", "happy", "hat", "he", "help", "her", "hill", "him", "his", "home", "honey", "hopped",
  "hugged", "hungry", "I", "in", "into", "is", "it", "jumped", "kick", "kicked", "kind", "kite",
  "last", "leaf", "Leo", "Lily", "little", "lived", "look", "looked", "lost", "love", "loved",
  "made", "Max", "me", "Mia", "mom", "mouse", "my", "named", "near", "night", "no", "not", "of",
  "oh", "old", "on", "once", "one", "park", "play", "played", "proud", "pull", "pulled", "rabbit",
  "rain", "rainy", "ran", "read", "red", "river", "rock", "Ruby", "sad", "said", "sang", "sat",
  "saw", "scared", "seeds", "share", "she", "shiny", "shook", "sleep", "smile", "so", "some",
  "song", "soon", "sorry", "sunny", "thank", "that", "the", "them", "then", "there", "they",
  "this", "time", "to", "together", "Tom", "too", "took", "tree", "under", "until", "up", "upon",
  "very", "waddled", "walk", "walked", "want", "wanted", "was", "we", "wear", "went", "were",
  "where", "why", "wind", "windy", "with", "wore", "yes", "you", "your",
};
const size_t grammar_word_count = COUNT(grammar_words);

const char *const grammar_speech_verbs[] = {"asked", "cried", "said", NULL};

// --- lexicons: the first row names the columns

static const char *const children[] = {
  "name", "he",  "his", "him", "child",
  "Anna", "she", "her", "her", "girl",
  "Lily", "she", "her", "her", "girl",
  "Mia",  "she", "her", "her", "girl",
  "Ruby", "she", "her", "her", "girl",
  "Ben",  "he",  "his", "him", "boy",
  "Leo",  "he",  "his", "him", "boy",
  "Max",  "he",  "his", "him", "boy",
  "Tom",  "he",  "his", "him", "boy",
};

static const char *const animals[] = {
  "kind",   "moved",   "climbed", "food",         "it",
  "bear",   "walked",  "climbed", "some honey",   "it",
  "bird",   "flew",    "flew",    "some seeds",   "them",
  "cat",    "crept",   "climbed", "a fish",       "it",
  "dog",    "ran",     "jumped",  "a bone",       "it",
  "duck",   "waddled", "flew",    "some bread",   "it",
  "mouse",  "crept",   "climbed", "some cheese",  "it",
  "rabbit", "hopped",  "jumped",  "a carrot",     "it",
};

// light: can the wind carry it?
static const char *const things[] = {
  "noun", "use",  "used",   "light",
  "ball", "kick", "kicked", "yes",
  "book", "read", "read",   "no",
  "cart", "pull", "pulled", "no",
  "drum", "play", "played", "no",
  "hat",  "wear", "wore",   "yes",
  "kite", "fly",  "flew",   "yes",
};

static const char *const looks[] = {
  "a",  "word",
  "a",  "big",
  "a",  "blue",
  "an", "old",
  "a",  "red",
  "a",  "shiny",
};

// spot: where things hide, and who hides there
static const char *const places[] = {
  "noun",   "at", "spot",
  "beach",  "at", "behind a rock",
  "forest", "in", "under a tree",
  "garden", "in", "under a leaf",
  "hill",   "on", "in the grass",
  "park",   "in", "behind a tree",
  "river",  "by", "behind a rock",
};

static const char *const skies[] = {"word", "rainy", "sunny", "windy"};

// What one can be afraid of at night.
static const char *const frights[] = {
  "night", "noun",
  "dark",  "dark",
  "rainy", "rain",
  "windy", "wind",
};

static const char *const parents[] = {"word", "dad", "mom"};

#define LEXICON(name, width) \
  static const grammar_lexicon name##_lexicon = {name, width, COUNT(name) / (width) - 1}
LEXICON(children, 5);
LEXICON(animals, 5);
LEXICON(things, 4);
LEXICON(looks, 2);
LEXICON(places, 3);
LEXICON(skies, 1);
LEXICON(frights, 2);
LEXICON(parents, 1);

enum { HERO, PAL, FRIEND, OTHER, THING, LOOK, PLACE, SKY, FRIGHT, PARENT };

const grammar_variable grammar_variables[GRAMMAR_VARIABLES] = {
  [HERO]   = {"hero",   &children_lexicon, PAL},
  [PAL]    = {"pal",    &children_lexicon, HERO},
  [FRIEND] = {"friend", &animals_lexicon,  OTHER},
  [OTHER]  = {"other",  &animals_lexicon,  FRIEND},
  [THING]  = {"thing",  &things_lexicon,   -1},
  [LOOK]   = {"look",   &looks_lexicon,    -1},
  [PLACE]  = {"place",  &places_lexicon,   -1},
  [SKY]    = {"sky",    &skies_lexicon,    -1},
  [FRIGHT] = {"fright", &frights_lexicon,  -1},
  [PARENT] = {"parent", &parents_lexicon,  -1},
};

// --- rules

#define STORY(name, weight, text)    {LEVEL_STORY, name, weight, text},
#define SENTENCE(name, weight, text) {LEVEL_SENTENCE, name, weight, text},
#define PHRASE(name, weight, text)   {LEVEL_PHRASE, name, weight, text},

const grammar_rule grammar_rules[] = {
  // What a story is: a plot, told from its opening to its close.
  STORY("story", 5, "<intro> <pet> <outing> <lose> <quest> <found> <end>")
  STORY("story", 4, "<born> <walk> <meet> <hunger> <feed> <fed> <friends>")
  STORY("story", 3, "{thing.light=yes} <intro> <pet> <windy> <blown> <plea> <rescue> <end>")
  STORY("story", 4, "<intro> <alone> <pal_comes> <pal_asks> <answer> <together> <pals>")
  STORY("story", 4, "<born> <walk> <treasure> <owner> <mine> <reward>")
  STORY("story", 3, "<born> <birthday> <guest> <gift> <wish> <party>")
  STORY("story", 3, "<intro> <pet> <night> <fear> <comfort> <asleep>")

  // --- openings
  STORY("intro", 3, "<born> <toy>")
  STORY("intro", 2, "<born_with_toy>")

  SENTENCE("born", 4, "once upon a time there was a <trait> {hero.child} named {hero.name} .")
  SENTENCE("born", 2, "once there was a <trait> {hero.child} named {hero.name} .")
  SENTENCE("born", 2, "{hero.name} was a <trait> {hero.child} .")
  SENTENCE("born", 2, "a {hero.child} named {hero.name} lived near the {place.noun} .")

  SENTENCE("toy", 3, "{hero.he} had {look.a} {look.word} {thing.noun} .")
  SENTENCE("toy", 2, "{hero.his} {parent.word} gave {hero.him} {look.a} {look.word} {thing.noun} .")
  SENTENCE("toy", 2, "{hero.he} loved to {thing.use} {hero.his} {look.word} {thing.noun} .")

  SENTENCE("born_with_toy", 2,
           "a {hero.child} named {hero.name} had {look.a} {look.word} {thing.noun} .")
  SENTENCE("born_with_toy", 1,
           "{hero.name} loved to {thing.use} {hero.his} {look.word} {thing.noun} .")

  SENTENCE("pet", 3, "{hero.his} best friend was a <trait> {friend.kind} .")
  SENTENCE("pet", 2, "{hero.he} had a friend , a <trait> {friend.kind} .")
  SENTENCE("pet", 1, "{hero.name} lived with a little {friend.kind} .")

  // --- the lost thing
  SENTENCE("outing", 3,
           "one {sky.word} day {hero.name} and the {friend.kind} went to the {place.noun} .")
  SENTENCE("outing", 2, "one {sky.word} day {hero.he} took the {thing.noun} to the {place.noun} .")
  SENTENCE("outing", 2,
           "one day {hero.name} {thing.used} the {thing.noun} {place.at} the {place.noun}"
           " with the {friend.kind} .")

  SENTENCE("lose", 3, "but then {hero.he} lost the {look.word} {thing.noun} !")
  SENTENCE("lose", 2, "soon {hero.he} could not find {hero.his} {thing.noun} .")
  SENTENCE("lose", 1, "{hero.he} looked up , and the {thing.noun} was gone .")

  STORY("quest", 3, "<weep> <cheer>")
  STORY("quest", 2, "<weep>")
  STORY("quest", 2, "<look_around>")
  STORY("quest", 1, "<cheer> <look_around>")

  SENTENCE("weep", 2, "{hero.name} sat down and cried .")
  SENTENCE("weep", 2, "{hero.he} was very sad .")
  SENTENCE("weep", 3, "`` oh no ! where is my {thing.noun} ? '' cried {hero.name} .")

  SENTENCE("cheer", 3, "`` do not cry , {hero.name} . I can help you ! '' said the {friend.kind} .")
  SENTENCE("cheer", 1, "the {friend.kind} wanted to help {hero.him} .")

  SENTENCE("look_around", 2, "the {friend.kind} {friend.moved} away to look for the {thing.noun} .")
  SENTENCE("look_around", 2, "they looked and looked {place.at} the {place.noun} .")

  SENTENCE("found", 3, "at last the {friend.kind} found the {thing.noun} {place.spot} .")
  SENTENCE("found", 2, "`` look ! your {thing.noun} is {place.spot} ! '' said the {friend.kind} .")

  // --- closes for hero, friend and thing
  STORY("end", 3, "<play_again>")
  STORY("end", 1, "<friends>")
  STORY("end", 2, "<thanks> <play_again>")
  STORY("end", 1, "<thanks> <friends>")

  SENTENCE("thanks", 2, "`` thank you , little {friend.kind} ! '' said {hero.name} .")
  SENTENCE("thanks", 1, "{hero.name} hugged the {friend.kind} .")
  SENTENCE("thanks", 1, "{hero.he} gave the {friend.kind} {friend.food} .")

  SENTENCE("play_again", 2, "then they {thing.used} the {look.word} {thing.noun} until night .")
  SENTENCE("play_again", 2,
           "{hero.name} was happy , and {hero.he} {thing.used} the {thing.noun} all day .")
  SENTENCE("play_again", 1, "{hero.he} took {hero.his} {thing.noun} home with a big smile .")

  SENTENCE("friends", 3, "from that day on {hero.name} and the {friend.kind} were best friends .")
  SENTENCE("friends", 2, "{hero.his} {parent.word} was very proud of {hero.him} .")
  SENTENCE("friends", 1, "{hero.name} and the {friend.kind} danced home together .")

  // --- the hungry animal
  SENTENCE("walk", 3, "one {sky.word} day {hero.he} went for a walk {place.at} the {place.noun} .")
  SENTENCE("walk", 2, "one {sky.word} day {hero.name} walked to the {place.noun} .")

  SENTENCE("meet", 3, "there {hero.he} saw a little {friend.kind} {place.spot} .")
  SENTENCE("meet", 1, "a sad {friend.kind} sat {place.spot} .")

  STORY("hunger", 2, "<wonder> <hungry>")
  STORY("hunger", 1, "<hungry_look>")

  SENTENCE("wonder", 2, "`` why are you sad , little {friend.kind} ? '' asked {hero.name} .")
  SENTENCE("wonder", 2, "{hero.name} asked , `` can I help you ? ''")

  SENTENCE("hungry", 2, "`` I am so hungry , '' said the {friend.kind} .")
  SENTENCE("hungry", 2, "`` yes ! I want {friend.food} , '' said the {friend.kind} .")
  SENTENCE("hungry_look", 1, "the {friend.kind} was hungry and wanted {friend.food} .")

  SENTENCE("feed", 3, "so {hero.name} gave the {friend.kind} {friend.food} .")
  SENTENCE("feed", 2, "{hero.he} ran home for {friend.food} .")
  SENTENCE("feed", 1, "so {hero.he} asked {hero.his} {parent.word} for {friend.food} .")

  SENTENCE("fed", 3, "the {friend.kind} ate {friend.it} all up .")
  SENTENCE("fed", 2, "`` thank you , {hero.name} ! '' said the {friend.kind} .")
  SENTENCE("fed", 1, "the {friend.kind} was so happy that it hugged {hero.him} .")

  // --- up in the tree
  SENTENCE("windy", 1,
           "one windy day they {thing.used} the {thing.noun} {place.at} the {place.noun} .")
  SENTENCE("windy", 1, "one windy day {hero.he} took {hero.his} {thing.noun} to the {place.noun} .")

  SENTENCE("blown", 2, "the wind took the {look.word} {thing.noun} up into a big tree .")
  SENTENCE("blown", 1, "soon the wind came , and the {thing.noun} flew up into a tree .")

  SENTENCE("plea", 2, "`` oh no ! my {thing.noun} is in the tree ! '' cried {hero.name} .")
  SENTENCE("plea", 2, "{hero.name} asked the {friend.kind} , `` can you help me ? ''")

  SENTENCE("rescue", 3, "the {friend.kind} {friend.climbed} up and took the {thing.noun} .")
  SENTENCE("rescue", 6,
           "{friend.kind=bear} the {friend.kind} shook the tree , and the {thing.noun} came down .")

  // --- two children
  SENTENCE("alone", 2, "one {sky.word} day {hero.he} took the {thing.noun} to the {place.noun} .")
  SENTENCE("alone", 2,
           "one day {hero.name} {thing.used} the {thing.noun} {place.at} the {place.noun} .")

  SENTENCE("pal_comes", 2, "there {hero.he} saw a {pal.child} named {pal.name} .")
  SENTENCE("pal_comes", 2, "a {pal.child} named {pal.name} came to {hero.him} .")

  SENTENCE("pal_asks", 3, "`` can I {thing.use} your {thing.noun} ? '' asked {pal.name} .")
  SENTENCE("pal_asks", 2, "{pal.name} wanted to {thing.use} the {look.word} {thing.noun} too .")

  STORY("answer", 3, "<share>")
  STORY("answer", 2, "<refuse> <pal_sad> <sorry>")

  SENTENCE("share", 2, "`` yes , you can {thing.use} it with me ! '' said {hero.name} .")
  SENTENCE("share", 1, "{hero.name} was a kind {hero.child} and said , `` yes , you can ! ''")
  SENTENCE("refuse", 1, "`` no ! it is my {thing.noun} ! '' cried {hero.name} .")
  SENTENCE("pal_sad", 1, "{pal.name} was very sad , and {pal.he} walked away .")
  SENTENCE("pal_sad", 1, "{pal.name} sat {place.spot} and cried .")
  SENTENCE("sorry", 2, "`` I am sorry , {pal.name} . we can share it , '' said {hero.name} .")
  SENTENCE("sorry", 1, "then {hero.name} was sorry and gave {pal.him} the {thing.noun} .")

  SENTENCE("together", 2, "so {hero.name} and {pal.name} {thing.used} the {thing.noun} together .")
  SENTENCE("together", 1, "{pal.name} {thing.used} it with a big smile .")

  SENTENCE("pals", 3, "from that day on {hero.name} and {pal.name} were best friends .")
  SENTENCE("pals", 1, "{hero.his} {parent.word} was very proud of {hero.him} .")

  // --- whose is it?
  SENTENCE("treasure", 2, "{place.spot} {hero.he} found {look.a} {look.word} {thing.noun} .")
  SENTENCE("treasure", 2, "there {hero.he} saw {look.a} {look.word} {thing.noun} {place.spot} .")

  STORY("owner", 2, "<ask_other> <not_mine> <ask_friend>")
  STORY("owner", 1, "<ask_first>")

  SENTENCE("ask_first", 1, "{hero.he} asked a {friend.kind} , `` is this your {thing.noun} ? ''")
  SENTENCE("ask_other", 1, "{hero.name} asked a {other.kind} , `` is this your {thing.noun} ? ''")
  SENTENCE("not_mine", 2, "`` no , it is not my {thing.noun} , '' said the {other.kind} .")
  SENTENCE("not_mine", 1, "`` no , I do not {thing.use} it , '' said the {other.kind} .")
  SENTENCE("ask_friend", 1,
           "then {hero.he} asked a {friend.kind} , `` is this your {thing.noun} ? ''")
  SENTENCE("mine", 2, "`` yes , it is my {look.word} {thing.noun} ! '' said the {friend.kind} .")
  SENTENCE("mine", 1, "`` yes ! I love to {thing.use} it ! '' said the {friend.kind} .")

  SENTENCE("reward", 1, "the {friend.kind} gave {hero.him} {friend.food} and {friend.moved} home .")
  SENTENCE("reward", 2,
           "`` you are a kind {hero.child} , {hero.name} , '' said the {friend.kind} .")
  SENTENCE("reward", 2,
           "{hero.name} and the {friend.kind} {thing.used} the {thing.noun} together .")

  // --- the birthday
  SENTENCE("birthday", 1,
           "it was {hero.his} birthday , and {hero.his} {parent.word} made a big cake .")
  SENTENCE("birthday", 1, "one day {hero.his} {parent.word} made a cake for {hero.his} birthday .")
  SENTENCE("guest", 2, "a <trait> {friend.kind} {friend.moved} in with {friend.food} .")
  SENTENCE("guest", 1, "soon a {friend.kind} came with {friend.food} for {hero.him} .")
  SENTENCE("gift", 1, "then a {other.kind} gave {hero.him} {look.a} {look.word} {thing.noun} .")
  SENTENCE("gift", 1,
           "then a {other.kind} {other.moved} in with {look.a} {look.word} {thing.noun} .")
  SENTENCE("wish", 2,
           "`` happy birthday , {hero.name} ! '' said the {friend.kind} and the {other.kind} .")
  SENTENCE("wish", 1, "`` thank you ! I love my {thing.noun} ! '' said {hero.name} .")
  SENTENCE("party", 2, "then they all ate cake and danced until night .")
  SENTENCE("party", 1,
           "the {friend.kind} and the {other.kind} {thing.used} the {thing.noun} all day .")
  SENTENCE("party", 1, "that night {hero.name} went to sleep with a big smile .")

  // --- the night
  SENTENCE("night", 2, "one {fright.night} night the {friend.kind} could not sleep .")
  SENTENCE("night", 1, "one {fright.night} night the {friend.kind} crept into {hero.his} bed .")
  SENTENCE("fear", 2, "`` I am scared of the {fright.noun} , '' said the {friend.kind} .")
  SENTENCE("fear", 1, "it was scared of the {fright.noun} and cried .")

  STORY("comfort", 2, "<soothe>")
  STORY("comfort", 2, "<lend>")
  STORY("comfort", 2, "<soothe> <lend>")
  SENTENCE("soothe", 2, "`` do not be scared . I am with you , '' said {hero.name} .")
  SENTENCE("soothe", 1, "so {hero.name} sang a little song for the {friend.kind} .")
  SENTENCE("lend", 2, "{hero.name} gave the {friend.kind} {hero.his} {look.word} {thing.noun} .")
  SENTENCE("lend", 2,
           "{thing.noun=book} {hero.he} read the {look.word} {thing.noun} to the {friend.kind} .")
  SENTENCE("asleep", 2, "soon {hero.name} and the {friend.kind} went to sleep .")
  SENTENCE("asleep", 1, "the {friend.kind} hugged the {thing.noun} and went to sleep .")
  SENTENCE("asleep", 1, "soon it was not scared of the {fright.noun} at all .")

  // --- parts
  PHRASE("trait", 2, "kind")
  PHRASE("trait", 2, "happy")
  PHRASE("trait", 2, "brave")
  PHRASE("trait", 2, "little")
};
const size_t grammar_rule_count = COUNT(grammar_rules);
