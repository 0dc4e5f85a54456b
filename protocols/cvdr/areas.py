"""CBS codes of municipalities, provinces and water boards, which the law schema wants in local regulations.

Repositories name the maker of a regulation, never its code. Municipalities that were merged away keep theirs, because
their regulations are still there. Who is missing here gets no code and a warning, not a guess.
"""

import re
import unicodedata
from functools import cache
from typing import Final

from protocols.law import Layer

_PROVINCES: Final = {
    "20": "Groningen",
    "21": "Fryslân",
    "22": "Drenthe",
    "23": "Overijssel",
    "24": "Flevoland",
    "25": "Gelderland",
    "26": "Utrecht",
    "27": "Noord-Holland",
    "28": "Zuid-Holland",
    "29": "Zeeland",
    "30": "Noord-Brabant",
    "31": "Limburg",
}
_WATER_BOARDS: Final = {
    "0152": "Rijn en IJssel",
    "0155": "Amstel, Gooi en Vecht",
    "0372": "Delfland",
    "0539": "De Dommel",
    "0616": "Rijnland",
    "0621": "Rivierenland",
    "0636": "De Stichtse Rijnlanden",
    "0646": "Hunze en Aa's",
    "0647": "Noorderzijlvest",
    "0650": "Zuiderzeeland",
    "0651": "Hollands Noorderkwartier",
    "0652": "Brabantse Delta",
    "0653": "Fryslân",
    "0654": "Aa en Maas",
    "0655": "Hollandse Delta",
    "0656": "Schieland en de Krimpenerwaard",
    "0661": "Scheldestromen",
    "0662": "Vallei en Veluwe",
    "0663": "Vechtstromen",
    "0664": "Drents Overijsselse Delta",
    "0665": "Limburg",
}
_OTHER_NAMES: Final = {
    Layer.GEMEENTELIJKE_VERORDENING: {
        "denhaag": "sgravenhage",
        "denbosch": "shertogenbosch",
        "nuenenca": "nuenengerwenennederwetten",
        "bergenlimburg": "bergenl",
        "bergenlb": "bergenl",
        "bergennoordholland": "bergennh",
        "menaldumadeel": "menameradiel",
        "dantumadeel": "dantumadiel",
    },
    Layer.PROVINCIALE_VERORDENING: {"friesland": "fryslan"},
    Layer.WATERSCHAPS_VERORDENING: {"friesland": "fryslan", "hetscheldestromen": "scheldestromen"},
}
_KINDS = re.compile(
    r"^(?:de )?(?:gemeente|provincie|waterschap|hoogheemraadschap|wetterskip|waternet) (?:van )?", re.IGNORECASE
)
_PROVINCE_IN_BRACKETS = re.compile(r" \([A-Za-z. -]{1,15}\)$")


def area_code(layer: Layer, name: str) -> str | None:
    """The code (``GM0166``, ``PV26``, ``WS0155``) of the area that ``name`` makes rules for; ``None`` when unknown.

    Names are compared without case, accents, punctuation and the word gemeente, provincie or waterschap. A province in
    brackets behind a municipality counts only where two share a name.
    """
    known = _codes().get(layer)
    if known is None:
        return None
    plain = _KINDS.sub("", " ".join(name.split()))
    for candidate in (plain, _PROVINCE_IN_BRACKETS.sub("", plain)):
        key = _key(candidate)
        found = known.get(_OTHER_NAMES[layer].get(key, key))
        if found is not None:
            return found
    return None


@cache
def _codes() -> dict[Layer, dict[str, str]]:
    municipalities = dict(entry.strip().split(" ", 1) for entry in _MUNICIPALITIES.split(";"))
    return {
        Layer.GEMEENTELIJKE_VERORDENING: {_key(name): f"GM{code}" for code, name in municipalities.items()},
        Layer.PROVINCIALE_VERORDENING: {_key(name): f"PV{code}" for code, name in _PROVINCES.items()},
        Layer.WATERSCHAPS_VERORDENING: {_key(name): f"WS{code}" for code, name in _WATER_BOARDS.items()},
    }


def _key(name: str) -> str:
    plain = unicodedata.normalize("NFKD", name.casefold())
    return "".join(char for char in plain if char.isalnum())


_MUNICIPALITIES: Final = """
0003 Appingedam; 0005 Bedum; 0007 Bellingwedde; 0009 Ten Boer; 0010 Delfzijl; 0014 Groningen; 0015 Grootegast;
0017 Haren; 0018 Hoogezand-Sappemeer; 0022 Leek; 0024 Loppersum; 0025 Marum; 0034 Almere; 0037 Stadskanaal;
0040 Slochteren; 0047 Veendam; 0048 Vlagtwedde; 0050 Zeewolde; 0051 Skarsterlân; 0053 Winsum; 0055 Boarnsterhim;
0056 Zuidhorn; 0058 Dongeradeel; 0059 Achtkarspelen; 0060 Ameland; 0063 het Bildt; 0070 Franekeradeel;
0072 Harlingen; 0074 Heerenveen; 0079 Kollumerland en Nieuwkruisland; 0080 Leeuwarden; 0081 Leeuwarderadeel;
0082 Lemsterland; 0085 Ooststellingwerf; 0086 Opsterland; 0088 Schiermonnikoog; 0090 Smallingerland;
0093 Terschelling; 0096 Vlieland; 0098 Weststellingwerf; 0106 Assen; 0109 Coevorden; 0114 Emmen; 0118 Hoogeveen;
0119 Meppel; 0140 Littenseradiel; 0141 Almelo; 0147 Borne; 0148 Dalfsen; 0150 Deventer; 0153 Enschede;
0158 Haaksbergen; 0160 Hardenberg; 0163 Hellendoorn; 0164 Hengelo; 0166 Kampen; 0168 Losser; 0171 Noordoostpolder;
0173 Oldenzaal; 0175 Ommen; 0177 Raalte; 0180 Staphorst; 0183 Tubbergen; 0184 Urk; 0189 Wierden; 0193 Zwolle;
0196 Rijnwaarden; 0197 Aalten; 0200 Apeldoorn; 0202 Arnhem; 0203 Barneveld; 0209 Beuningen; 0213 Brummen;
0214 Buren; 0216 Culemborg; 0221 Doesburg; 0222 Doetinchem; 0225 Druten; 0226 Duiven; 0228 Ede; 0230 Elburg;
0232 Epe; 0233 Ermelo; 0236 Geldermalsen; 0241 Groesbeek; 0243 Harderwijk; 0244 Hattem; 0246 Heerde; 0252 Heumen;
0262 Lochem; 0263 Maasdriel; 0265 Millingen aan de Rijn; 0267 Nijkerk; 0268 Nijmegen; 0269 Oldebroek; 0273 Putten;
0274 Renkum; 0275 Rheden; 0277 Rozendaal; 0279 Scherpenzeel; 0281 Tiel; 0282 Ubbergen; 0285 Voorst;
0289 Wageningen; 0293 Westervoort; 0294 Winterswijk; 0296 Wijchen; 0297 Zaltbommel; 0299 Zevenaar; 0301 Zutphen;
0302 Nunspeet; 0303 Dronten; 0304 Neerijnen; 0305 Abcoude; 0307 Amersfoort; 0308 Baarn; 0310 De Bilt;
0311 Breukelen; 0312 Bunnik; 0313 Bunschoten; 0317 Eemnes; 0321 Houten; 0327 Leusden; 0329 Loenen; 0331 Lopik;
0333 Maarssen; 0335 Montfoort; 0339 Renswoude; 0340 Rhenen; 0342 Soest; 0344 Utrecht; 0345 Veenendaal;
0351 Woudenberg; 0352 Wijk bij Duurstede; 0353 IJsselstein; 0355 Zeist; 0356 Nieuwegein; 0358 Aalsmeer;
0361 Alkmaar; 0362 Amstelveen; 0363 Amsterdam; 0364 Andijk; 0365 Graft-De Rijp; 0366 Anna Paulowna; 0370 Beemster;
0373 Bergen (NH); 0375 Beverwijk; 0376 Blaricum; 0377 Bloemendaal; 0381 Bussum; 0383 Castricum; 0384 Diemen;
0385 Edam-Volendam; 0388 Enkhuizen; 0392 Haarlem; 0393 Haarlemmerliede en Spaarnwoude; 0394 Haarlemmermeer;
0395 Harenkarspel; 0396 Heemskerk; 0397 Heemstede; 0398 Heerhugowaard; 0399 Heiloo; 0400 Den Helder;
0402 Hilversum; 0405 Hoorn; 0406 Huizen; 0412 Niedorp; 0415 Landsmeer; 0416 Langedijk; 0417 Laren; 0420 Medemblik;
0424 Muiden; 0425 Naarden; 0431 Oostzaan; 0432 Opmeer; 0437 Ouder-Amstel; 0439 Purmerend; 0441 Schagen;
0448 Texel; 0450 Uitgeest; 0451 Uithoorn; 0453 Velsen; 0457 Weesp; 0458 Schermer; 0459 Wervershoof;
0462 Wieringen; 0463 Wieringermeer; 0473 Zandvoort; 0476 Zijpe; 0478 Zeevang; 0479 Zaanstad; 0482 Alblasserdam;
0484 Alphen aan den Rijn; 0489 Barendrecht; 0491 Bergambacht; 0497 Bodegraven; 0498 Drechterland; 0499 Boskoop;
0501 Brielle; 0502 Capelle aan den IJssel; 0503 Delft; 0504 Dirksland; 0505 Dordrecht; 0511 Goedereede;
0512 Gorinchem; 0513 Gouda; 0518 's-Gravenhage; 0523 Hardinxveld-Giessendam; 0530 Hellevoetsluis;
0531 Hendrik-Ido-Ambacht; 0532 Stede Broec; 0534 Hillegom; 0537 Katwijk; 0542 Krimpen aan den IJssel;
0545 Leerdam; 0546 Leiden; 0547 Leiderdorp; 0553 Lisse; 0556 Maassluis; 0559 Middelharnis; 0568 Bernisse;
0569 Nieuwkoop; 0571 Nieuw-Lekkerland; 0575 Noordwijk; 0576 Noordwijkerhout; 0579 Oegstgeest; 0580 Oostflakkee;
0584 Oud-Beijerland; 0585 Binnenmaas; 0588 Korendijk; 0589 Oudewater; 0590 Papendrecht; 0595 Reeuwijk;
0597 Ridderkerk; 0599 Rotterdam; 0603 Rijswijk; 0606 Schiedam; 0608 Schoonhoven; 0610 Sliedrecht;
0611 Cromstrijen; 0612 Spijkenisse; 0613 Albrandswaard; 0614 Westvoorne; 0617 Strijen; 0620 Vianen;
0622 Vlaardingen; 0623 Vlist; 0626 Voorschoten; 0627 Waddinxveen; 0629 Wassenaar; 0632 Woerden; 0637 Zoetermeer;
0638 Zoeterwoude; 0642 Zwijndrecht; 0643 Nederlek; 0644 Ouderkerk; 0653 Gaasterlân-Sleat; 0654 Borsele; 0664 Goes;
0668 West Maas en Waal; 0677 Hulst; 0678 Kapelle; 0687 Middelburg; 0689 Giessenlanden; 0693 Graafstroom;
0694 Liesveld; 0703 Reimerswaal; 0707 Zederik; 0715 Terneuzen; 0716 Tholen; 0717 Veere; 0718 Vlissingen;
0733 Lingewaal; 0736 De Ronde Venen; 0737 Tytsjerksteradiel; 0738 Aalburg; 0743 Asten; 0744 Baarle-Nassau;
0748 Bergen op Zoom; 0753 Best; 0755 Boekel; 0756 Boxmeer; 0757 Boxtel; 0758 Breda; 0762 Deurne; 0765 Pekela;
0766 Dongen; 0770 Eersel; 0772 Eindhoven; 0777 Etten-Leur; 0779 Geertruidenberg; 0784 Gilze en Rijen; 0785 Goirle;
0786 Grave; 0788 Haaren; 0794 Helmond; 0796 's-Hertogenbosch; 0797 Heusden; 0798 Hilvarenbeek; 0809 Loon op Zand;
0815 Mill en Sint Hubert; 0820 Nuenen, Gerwen en Nederwetten; 0823 Oirschot; 0824 Oisterwijk; 0826 Oosterhout;
0828 Oss; 0840 Rucphen; 0844 Schijndel; 0845 Sint-Michielsgestel; 0846 Sint-Oedenrode; 0847 Someren;
0848 Son en Breugel; 0851 Steenbergen; 0852 Waterland; 0855 Tilburg; 0856 Uden; 0858 Valkenswaard; 0860 Veghel;
0861 Veldhoven; 0865 Vught; 0866 Waalre; 0867 Waalwijk; 0870 Werkendam; 0873 Woensdrecht; 0874 Woudrichem;
0879 Zundert; 0880 Wormerland; 0881 Onderbanken; 0882 Landgraaf; 0888 Beek; 0889 Beesel; 0893 Bergen (L);
0899 Brunssum; 0907 Gennep; 0917 Heerlen; 0928 Kerkrade; 0935 Maastricht; 0938 Meerssen; 0944 Mook en Middelaar;
0946 Nederweert; 0951 Nuth; 0957 Roermond; 0962 Schinnen; 0965 Simpelveld; 0971 Stein; 0981 Vaals; 0983 Venlo;
0984 Venray; 0986 Voerendaal; 0988 Weert; 0994 Valkenburg aan de Geul; 0995 Lelystad; 1507 Horst aan de Maas;
1509 Oude IJsselstreek; 1525 Teylingen; 1581 Utrechtse Heuvelrug; 1586 Oost Gelre; 1598 Koggenland;
1621 Lansingerland; 1640 Leudal; 1641 Maasgouw; 1651 Eemsmond; 1652 Gemert-Bakel; 1655 Halderberge;
1658 Heeze-Leende; 1659 Laarbeek; 1663 De Marne; 1667 Reusel-De Mierden; 1669 Roerdalen; 1671 Maasdonk;
1672 Rijnwoude; 1674 Roosendaal; 1676 Schouwen-Duiveland; 1680 Aa en Hunze; 1681 Borger-Odoorn; 1684 Cuijk;
1685 Landerd; 1690 De Wolden; 1695 Noord-Beveland; 1696 Wijdemeren; 1699 Noordenveld; 1700 Twenterand;
1701 Westerveld; 1702 Sint Anthonis; 1705 Lingewaard; 1706 Cranendonck; 1708 Steenwijkerland; 1709 Moerdijk;
1711 Echt-Susteren; 1714 Sluis; 1719 Drimmelen; 1721 Bernheze; 1722 Ferwerderadiel; 1723 Alphen-Chaam;
1724 Bergeijk; 1728 Bladel; 1729 Gulpen-Wittem; 1730 Tynaarlo; 1731 Midden-Drenthe; 1734 Overbetuwe;
1735 Hof van Twente; 1740 Neder-Betuwe; 1742 Rijssen-Holten; 1771 Geldrop-Mierlo; 1773 Olst-Wijhe;
1774 Dinkelland; 1783 Westland; 1842 Midden-Delfland; 1859 Berkelland; 1876 Bronckhorst; 1883 Sittard-Geleen;
1884 Kaag en Braassem; 1891 Dantumadiel; 1892 Zuidplas; 1894 Peel en Maas; 1895 Oldambt; 1896 Zwartewaterland;
1900 Súdwest-Fryslân; 1901 Bodegraven-Reeuwijk; 1903 Eijsden-Margraten; 1904 Stichtse Vecht; 1908 Menameradiel;
1911 Hollands Kroon; 1916 Leidschendam-Voorburg; 1921 De Friese Meren; 1924 Goeree-Overflakkee;
1926 Pijnacker-Nootdorp; 1927 Molenwaard; 1930 Nissewaard; 1931 Krimpenerwaard; 1940 De Fryske Marren;
1942 Gooise Meren; 1945 Berg en Dal; 1948 Meierijstad; 1949 Waadhoeke; 1950 Westerwolde; 1952 Midden-Groningen;
1954 Beekdaelen; 1955 Montferland; 1959 Altena; 1960 West Betuwe; 1961 Vijfheerenlanden; 1963 Hoeksche Waard;
1966 Het Hogeland; 1969 Westerkwartier; 1970 Noardeast-Fryslân; 1978 Molenlanden; 1979 Eemsdelta;
1980 Dijk en Waard; 1982 Land van Cuijk; 1987 Menterwolde; 1991 Maashorst; 1992 Voorne aan Zee
"""
"""Code and name of every municipality since about 2010, by code."""
