/* Debian's libcrypt: crypt(3) password hashes. */
#include <crypt.h>
