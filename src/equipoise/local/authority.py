"""A small certificate authority for the hubs of one machine, for `equipoise up --tls`.

    DIR/tls/ca.pem   the authority, for clients; ca.key signs and is readable by its owner only
    DIR/tls/hub.pem  the certificate of all hubs of this machine, with hub.key

Always true: certificates that are valid for another month are kept, so that clients keep trusting the authority; the
hubs' certificate is replaced when it is not, or when another authority has signed it.
"""

from __future__ import annotations

import datetime
import os
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from equipoise.errors import SettingsError

__all__ = ["HubCertificate", "hub_certificate"]

_AUTHORITY_DAYS = 3_650
_HUB_DAYS = 365
# A certificate that expires sooner is replaced: a system that runs for a month does not outlive its certificate.
_LEFT_DAYS_MIN = 30
# Clocks of other machines may be slow.
_BEFORE = datetime.timedelta(days=1)


class HubCertificate(NamedTuple):
    """Files, in PEM."""

    ca: Path
    certificate: Path
    key: Path


def hub_certificate(folder: Path, names: tuple[str, ...], now: datetime.datetime) -> HubCertificate:
    """The certificate for hubs with these names or addresses; created if it is missing.

    Raises SettingsError if the files cannot be read or written.
    """
    files = HubCertificate(folder / "ca.pem", folder / "hub.pem", folder / "hub.key")
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        ca_key, ca = _authority(folder, now)
        if not _is_good(files, ca, names, now):
            key = ec.generate_private_key(ec.SECP256R1())
            made = _sign(names[0], key, now, _HUB_DAYS, ca_key, ca, names)
            _write_key(files.key, key)
            files.certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    except (OSError, ValueError) as problem:
        raise SettingsError(
            f"the certificates in {folder} cannot be used: {problem}. Remove the folder to generate new ones"
        ) from problem
    return files


def _authority(folder: Path, now: datetime.datetime) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key_file, file = folder / "ca.key", folder / "ca.pem"
    if key_file.exists() and file.exists():
        key = serialization.load_pem_private_key(key_file.read_bytes(), None)
        ca = x509.load_pem_x509_certificate(file.read_bytes())
        if isinstance(key, ec.EllipticCurvePrivateKey) and _holds(ca, now):
            return key, ca
    key = ec.generate_private_key(ec.SECP256R1())
    ca = _sign("Equipoise on this machine", key, now, _AUTHORITY_DAYS)
    _write_key(key_file, key)
    file.write_bytes(ca.public_bytes(serialization.Encoding.PEM))
    return key, ca


def _sign(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    now: datetime.datetime,
    days: int,
    issuer_key: ec.EllipticCurvePrivateKey | None = None,
    issuer: x509.Certificate | None = None,
    names: tuple[str, ...] = (),
) -> x509.Certificate:
    """Without an issuer: a self-signed authority."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    signer = issuer_key or key
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BEFORE)
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
        .add_extension(_usage(is_authority=issuer is None), critical=True)
    )
    if names:
        made = made.add_extension(
            x509.SubjectAlternativeName([_general(name) for name in names]), critical=False
        )
    return made.sign(signer, hashes.SHA256())


def _usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_authority,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _is_good(
    files: HubCertificate, ca: x509.Certificate, names: tuple[str, ...], now: datetime.datetime
) -> bool:
    """Whether the existing certificate is this authority's, for these names, and valid for long enough."""
    if not files.certificate.exists() or not files.key.exists():
        return False
    known = x509.load_pem_x509_certificate(files.certificate.read_bytes())
    try:
        known.verify_directly_issued_by(ca)
        covered = known.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return False
    return _holds(known, now) and all(_general(name) in covered for name in names)


def _holds(certificate: x509.Certificate, now: datetime.datetime) -> bool:
    left = certificate.not_valid_after_utc - now
    return left > datetime.timedelta(days=_LEFT_DAYS_MIN)


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    data = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
