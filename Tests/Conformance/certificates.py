"""Certificates for one run, made with openssl(1): an authority, a server, a client of ours, and a stranger."""

import os
import shutil
import ssl
import subprocess

from report import Skipped

CURVE = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]


class Certificates:
    """The files in one folder. `authority` vouches for `server` and `client`; `stranger` vouches for itself."""

    def __init__(self, folder):
        if not shutil.which("openssl"):
            raise Skipped("openssl is not installed")
        self.folder = folder
        self.make_alone("authority", "basicConstraints=critical,CA:TRUE")
        self.make_alone("stranger", "basicConstraints=critical,CA:TRUE")
        self.make_server()
        self.make_signed("client", "extendedKeyUsage=clientAuth")

    def path(self, name):
        return os.path.join(self.folder, name)

    def openssl(self, *arguments):
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=30, cwd=self.folder)

    def make_alone(self, name, extension):
        self.openssl(
            *["req", "-x509", *CURVE, "-keyout", f"{name}.key", "-out", f"{name}.pem", "-days", "30"],
            *["-subj", f"/CN={name}", "-addext", extension],
        )

    def make_signed(self, name, extensions):
        """A key and a certificate of the authority."""
        with open(self.path(f"{name}.ext"), "w", encoding="ascii") as file:
            file.write(extensions + "\n")
        self.openssl("req", *CURVE, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        self.openssl(
            *["x509", "-req", "-in", f"{name}.csr", "-CA", "authority.pem", "-CAkey", "authority.key"],
            *["-CAcreateserial", "-days", "30", "-extfile", f"{name}.ext", "-out", f"{name}.pem"],
        )

    def make_server(self):
        """A new key and certificate for localhost and 127.0.0.1."""
        self.make_signed("server", "subjectAltName=DNS:localhost,IP:127.0.0.1")

    def spoil_server(self):
        """A certificate that breaks off in the middle."""
        with open(self.path("server.pem"), encoding="ascii") as file:
            text = file.read()
        with open(self.path("server.pem"), "w", encoding="ascii") as file:
            file.write(text[: len(text) // 2])

    def copy(self, name, new, mode):
        shutil.copyfile(self.path(name), self.path(new))
        os.chmod(self.path(new), mode)
        return self.path(new)

    def context(self, only=None, client=None):
        """What a client needs: trust in the authority, perhaps one version only, perhaps a certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self.path("authority.pem"))
        if only:
            # Old versions need OpenSSL's security level lowered, or the client refuses before the server can.
            context.set_ciphers("DEFAULT:@SECLEVEL=0")
            context.minimum_version = context.maximum_version = only
        if client:
            context.load_cert_chain(self.path(f"{client}.pem"), self.path(f"{client}.key"))
        return context
